#!/usr/bin/env python3
"""Writes fields.txt: the names of all fields of Kubernetes' objects.

The source is the public Python client of Kubernetes, whose models are made from Kubernetes' OpenAPI document; the
version of the package is that of Kubernetes (36 is v1.36). Several versions are merged:

    for v in 35.0.0 36.0.3 37.0.2; do pip download --no-deps kubernetes==$v; done
    python3 proto/kubernetes/fields.py kubernetes-*.whl > proto/kubernetes/fields.txt
"""

import ast
import re
import sys
import textwrap
import zipfile

ROOTS = """
CSIDriver CSINode CSIStorageCapacity CronJob DaemonSet Deployment DeviceClass Job LimitRange ListMeta Namespace Node
PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PodTemplate PriorityClass ReplicaSet
ReplicationController ResourceClaim ResourceClaimTemplate ResourceQuota ResourceSlice RuntimeClass Service StatefulSet
StorageClass VolumeAttachment
""".split()

# Two messages are called ResourceClaim: the kind, and an entry of a container's `resources.claims`.
NAMES = {"CoreV1ResourceClaim": "core.ResourceClaim"}

HEAD = """\
# The names of all fields of Kubernetes' objects: for every message its fields, and after `:` the message that a field
# holds, once or as a list (`:*` is a map from any key to the message). Everything else is free: scalars, and what may
# hold any key, such as labels, quantities by resource, and `fieldsV1`.
#
# Made by fields.py from the models of the Python package `kubernetes`, versions {versions}.
# The last paragraph lists the kinds of all of Kubernetes' own groups, in any version.
"""


def models(path):
    """The models of a package: for each class the types of its fields, by their names in JSON."""
    found = {}
    with zipfile.ZipFile(path) as package:
        for name in package.namelist():
            if not re.match(r"kubernetes/client/models/\w+\.py$", name):
                continue
            for node in ast.parse(package.read(name)).body:
                if isinstance(node, ast.ClassDef):
                    tables = class_tables(node)
                    if len(tables) == 2:
                        types, names = tables["openapi_types"], tables["attribute_map"]
                        found[node.name] = {names[field]: types[field] for field in types}
    return found


def class_tables(node):
    tables = {}
    for statement in node.body:
        targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
        name = getattr(targets[0], "id", None)
        if name in ("openapi_types", "attribute_map"):
            tables[name] = ast.literal_eval(statement.value)
    return tables


def message_name(model):
    return NAMES.get(model) or re.sub(r"^(Core|Storage|Resource)?V1((alpha|beta)\d+)?(?=[A-Z])", "", model)


def reachable(found):
    """The messages that are reachable from the roots: for each its fields with their contents."""
    is_v1 = re.compile(r"(Core|Storage|Resource)?V1[A-Z]").match
    by_name = {message_name(model): model for model in found if is_v1(model)}
    todo, messages = [by_name[root] for root in ROOTS if root in by_name], {}
    while todo:
        model = todo.pop()
        name = message_name(model)
        if name in messages:
            continue
        messages[name] = {}
        for field, type_ in found[model].items():
            held = [word for word in re.findall(r"\w+", type_) if word in found]
            is_map = type_.lower().startswith("dict")
            messages[name][field] = (":*" if is_map else ":") + message_name(held[0]) if held else ""
            todo += held
    return messages


def kinds(found):
    """The names of the kinds, of all groups and versions."""
    objects = [model for model, fields in found.items() if {"apiVersion", "kind", "metadata"} <= fields.keys()]
    names = {re.sub(r"^([A-Z][a-z]+)?V\d+((alpha|beta)\d+)?(?=[A-Z])", "", model) for model in objects}
    return {name for name in names if name and not name.endswith("List")}


def main():
    paths = sorted(sys.argv[1:])
    versions = [re.search(r"kubernetes-([\d.]+)", path).group(1) for path in paths]
    messages, all_kinds = {"List": {"apiVersion": "", "items": "", "kind": "", "metadata": ":ListMeta"}}, set()
    for path in paths:
        found = models(path)
        all_kinds |= kinds(found)
        for name, fields in reachable(found).items():
            for field, content in fields.items():
                known = messages.setdefault(name, {}).setdefault(field, content)
                if known != content:
                    sys.exit(f"{name}.{field} is {known} and {content}")
    print(HEAD.format(versions=", ".join(versions[:-1]) + " and " + versions[-1]))
    for name in sorted(messages):
        words = " ".join(field + messages[name][field] for field in sorted(messages[name]))
        print(wrapped(name, words))
    print("\n" + wrapped("kinds", " ".join(sorted(all_kinds | {"List"}))))


def wrapped(name, words):
    lines = textwrap.wrap(words, 116, break_long_words=False, break_on_hyphens=False)
    return "\n".join([name, *("  " + line for line in lines)])


main()
