//! Input: the files and folders that a command names, and the namespace of the objects in them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use berth_proto::meta_v1::ObjectMeta;

use super::CliError;
use crate::feed::file::{self, Dump, Location, Refused, UnknownFields};
use crate::feed::{FeedError, object_name};

/// Flags on how files of objects are read.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct InputArgs {
    /// Read folders with their subfolders
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Namespace of pods that are named without one, and of the objects in files that name none; one that names another
    /// is refused [default: default]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// Ends of the names of files that are read of a folder.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

impl InputArgs {
    /// The namespace, if one was given.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    #[cfg(test)]
    pub(super) fn in_namespace(name: &str) -> InputArgs {
        InputArgs { namespace: Some(name.to_owned()), ..InputArgs::default() }
    }

    /// Reads the objects of a file, of standard input for `-`, or of the files of a folder by name; returns what each
    /// file holds. Objects of another namespace than the one that was given are among the refused.
    ///
    /// # Errors
    /// A file that cannot be read as a whole, a folder without files of objects.
    pub(super) fn read(
        &self,
        path: &Path,
        unknown_fields: UnknownFields,
    ) -> Result<Vec<Dump>, CliError> {
        let read = |file: PathBuf| {
            let mut dump = file::read(&file, unknown_fields)?;
            if let Some(namespace) = &self.namespace {
                put_into(&mut dump, namespace);
            }
            Ok(dump)
        };
        self.files(path)?.into_iter().map(read).collect()
    }

    /// The files that `path` stands for: itself, or those of the folder.
    fn files(&self, path: &Path) -> Result<Vec<PathBuf>, CliError> {
        if path == Path::new("-") || !path.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let mut files = Vec::new();
        self.collect(path, &mut files)?;
        if files.is_empty() {
            return Err(CliError::Request(format!(
                "`{}` has no file that ends in .json, .yaml or .yml",
                path.display()
            )));
        }
        Ok(files)
    }

    /// Adds the files of a folder by name, those of a subfolder in its place. Links to folders are not followed.
    fn collect(&self, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), FeedError> {
        let failed =
            |source: io::Error| FeedError::Read { path: folder.display().to_string(), source };
        let entries = fs::read_dir(folder).map_err(failed)?;
        let mut entries = entries.collect::<io::Result<Vec<_>>>().map_err(failed)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if entry.file_type().map_err(failed)?.is_dir() {
                if self.recursive {
                    self.collect(&path, files)?;
                }
                continue;
            }
            let extension = path.extension().and_then(|extension| extension.to_str());
            if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && path.is_file()
            {
                files.push(path);
            }
        }
        Ok(())
    }
}

/// Puts objects without a namespace into `namespace`, and refuses those of another.
fn put_into(dump: &mut Dump, namespace: &str) {
    let Dump { pods, objects, workloads, refused, .. } = dump;
    let mut put = |kind: &str, metadata: &mut ObjectMeta, location: &Location| {
        if metadata.namespace.is_empty() {
            namespace.clone_into(&mut metadata.namespace);
        }
        let is_there = metadata.namespace == namespace;
        if !is_there {
            let reason = format!(
                "`{}` does not match the namespace `{namespace}` of `-n`",
                metadata.namespace
            );
            let object = object_name(kind, Some(metadata));
            let field = "metadata.namespace".to_owned();
            refused.push(Refused { location: location.clone(), object, field, reason });
        }
        is_there
    };
    pods.retain_mut(|pod| put("Pod", pod.value.metadata.get_or_insert_default(), &pod.location));
    workloads.retain_mut(|workload| {
        let kind = workload.value.kind().name();
        put(kind, workload.value.metadata_mut(), &workload.location)
    });
    objects.retain_mut(|object| {
        let kind = object.value.as_wire().kind();
        !kind.is_namespaced() || put(kind.name(), object.value.metadata_mut(), &object.location)
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn put(namespace: &str) -> (Vec<String>, Vec<String>) {
        let text = "\
kind: Pod
metadata: {name: a}
---
kind: Deployment
apiVersion: apps/v1
metadata: {name: b, namespace: shop}
---
kind: Service
metadata: {name: c}
---
kind: PersistentVolume
metadata: {name: d}
";
        let mut dump = file::parse(&Arc::from("f"), text, UnknownFields::Warn).unwrap();
        put_into(&mut dump, namespace);
        let mut found: Vec<String> =
            dump.pods.iter().map(|pod| object_name("Pod", pod.value.metadata.as_ref())).collect();
        let kind = |kind: berth_engine::workload::WorkloadKind| kind.name();
        found.extend(
            dump.workloads.iter().map(|w| object_name(kind(w.value.kind()), w.value.metadata())),
        );
        found.extend(dump.objects.iter().map(|object| {
            let object = object.value.as_wire();
            object_name(object.kind().name(), object.metadata())
        }));
        (found, dump.refused.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn objects_get_the_namespace_or_are_refused() {
        let (found, refused) = put("shop");
        let expected =
            ["Pod `shop/a`", "Deployment `shop/b`", "Service `shop/c`", "PersistentVolume `d`"];
        assert_eq!((found, refused.len()), (expected.map(str::to_owned).to_vec(), 0));
        let (found, refused) = put("ops");
        assert_eq!((found.len(), refused.len()), (3, 1));
        assert_eq!(
            refused[0],
            "f:4 (document 1): Deployment `shop/b`: `metadata.namespace`: `shop` does not match the namespace `ops` \
             of `-n`"
        );
    }

    #[test]
    fn folders_are_read_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("c")).unwrap();
        fs::create_dir(at("empty")).unwrap();
        for name in ["b.yaml", "a.yml", "c/d.json", "notes.txt", "e.json"] {
            fs::write(at(name), "").unwrap();
        }
        let names = |recursive, path: &Path| {
            let args = InputArgs { recursive, namespace: None };
            let relative =
                |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().display().to_string();
            args.files(path)
                .map(|files| files.iter().map(relative).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(names(false, folder.path()).unwrap(), ["a.yml", "b.yaml", "e.json"]);
        assert_eq!(names(true, folder.path()).unwrap(), ["a.yml", "b.yaml", "c/d.json", "e.json"]);
        let error = names(true, &at("empty")).unwrap_err();
        assert!(error.ends_with("has no file that ends in .json, .yaml or .yml"), "{error}");
        // A file that is named itself may end in anything.
        assert_eq!(names(false, &at("notes.txt")).unwrap(), ["notes.txt"]);
    }
}
