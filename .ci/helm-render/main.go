// Command helm-render renders a chart as `helm template` does, as far as Berth's chart needs it: for machines without Helm. Values are
// checked by the chart's schema, templates have Sprig's functions and Helm's own, and everything that comes out has to be YAML.
//
//	helm-render CHART RELEASE NAMESPACE [VALUES-FILE…]
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

func main() {
	if len(os.Args) < 4 {
		exit(fmt.Errorf("usage: helm-render CHART RELEASE NAMESPACE [VALUES-FILE…]"))
	}
	chart := os.Args[1]
	values, err := readValues(append([]string{filepath.Join(chart, "values.yaml")}, os.Args[4:]...))
	exit(err)
	exit(checkSchema(filepath.Join(chart, "values.schema.json"), values))
	about, err := readYAML(filepath.Join(chart, "Chart.yaml"))
	exit(err)
	exit(render(chart, object{
		"Values":   values,
		"Chart":    object{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release":  object{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm", "IsInstall": true},
		"Template": object{"BasePath": "berth/templates"},
		"Files":    files{chart},
	}))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// files is what templates see of the chart's other files.
type files struct{ chart string }

func (f files) Get(name string) string {
	text, _ := os.ReadFile(filepath.Join(f.chart, name))
	return string(text)
}

func readYAML(path string) (object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := object{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

// readValues lets later files win over earlier ones, field by field.
func readValues(paths []string) (object, error) {
	values := object{}
	for _, path := range paths {
		more, err := readYAML(path)
		if err != nil {
			return nil, err
		}
		merge(values, more)
	}
	return values, nil
}

func merge(into, from object) {
	for key, value := range from {
		inner, isObject := value.(object)
		if there, isThere := into[key].(object); isObject && isThere {
			merge(there, inner)
		} else {
			into[key] = value
		}
	}
}

func checkSchema(path string, values object) error {
	schema, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(schema), gojsonschema.NewGoLoader(values))
	if err != nil {
		return err
	}
	var problems []string
	for _, problem := range result.Errors() {
		problems = append(problems, "values: "+problem.String())
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s", strings.Join(problems, "\n"))
	}
	return nil
}

func render(chart string, top object) error {
	all := template.New("berth").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["fromYaml"] = func(text string) (object, error) {
		value := object{}
		return value, yaml.Unmarshal([]byte(text), &value)
	}
	functions["fail"] = func(message string) (string, error) { return "", fmt.Errorf("%s", message) }
	all.Funcs(functions)
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	sort.Strings(paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := all.New("berth/templates/" + filepath.Base(path)).Parse(string(text)); err != nil {
			return err
		}
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, "berth/templates/"+name, top); err != nil {
			return err
		}
		if name == "NOTES.txt" {
			continue
		}
		if err := tell(name, out.String()); err != nil {
			return err
		}
	}
	return nil
}

// tell prints a template's documents, each of which has to say what it is.
func tell(name, text string) error {
	for _, document := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		value := object{}
		if err := yaml.UnmarshalStrict([]byte(document), &value); err != nil {
			return fmt.Errorf("%s: %w in\n%s", name, err, document)
		}
		if len(value) == 0 {
			continue
		}
		if value["kind"] == nil || value["apiVersion"] == nil || value["metadata"] == nil {
			return fmt.Errorf("%s: a document without kind, apiVersion or metadata:\n%s", name, document)
		}
		fmt.Printf("---\n# Source: %s\n%s\n", name, strings.TrimSpace(document))
	}
	return nil
}
