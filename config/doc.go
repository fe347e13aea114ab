// Package config reads and checks Penstock's one YAML file. Nothing here is live: the package opens
// no socket, logs nothing and knows nothing of HTTP. Everything that serves requests is built from
// the [File] that it returns.
//
// # The file
//
// Only settings that name something have no default. This is a whole configuration:
//
//	keys:
//	  - id: team-a                              # for logs and limits
//	    hash: sha256:9f86d081884c7d65...        # of the key; "penstock key new" prints both
//	upstreams:
//	  - name: gpu-a
//	    url: http://10.0.0.11:8000              # base URL without /v1
//	    api_key: "${GPU_KEY}"                   # or file:PATH, or the text itself
//	models:
//	  - id: llama-3.3-70b                       # what clients ask for, and what answers say
//	    aliases: ["claude-*"]                   # what else they may ask for
//	    deployments:
//	      - { upstream: gpu-a, served: meta-llama/Llama-3.3-70B-Instruct } # the engine's name
//
// [Example] shows every key with its meaning; [Schema] describes them to editors. Defaults are
// defined only in [Defaults] and in the SetDefaults of list entries. Files are decoded over them: a
// key without a value keeps its default, and an empty list is empty, not absent.
//
// # From text to File
//
// [Load] reads a file in these steps; [Parse] does the same from memory:
//
//  1. strictyaml.Read: the text is parsed, and bound to the structs by their yaml tags,
//     with ${VAR}, file: secrets, durations and sizes resolved. Each leaves its line under its
//     path. Settings of earlier versions are ignored with a warning (retired.go).
//  2. normalize: paths are joined with the file's folder, URLs lose a trailing slash, certificates
//     must be readable.
//  3. readKeys: the keys_file goes through the same steps, and its keys are appended.
//  4. complete: defaults that depend on other values, such as a deployment's served name.
//
// [File.Validate] then checks the rules that tie values together. [LoadValid] runs all steps over
// whatever could be read, so that mistakes of every class are reported at once, each with its line
// and an excerpt of the source; [Problems] prints them.
//
// # Changes
//
// [Diff] lists what changed between two Files, by name and without any value, and marks what a
// running process cannot take over. Package filewatch reports when the content of files changed.
//
// [WithListed] returns a File with the models that engines list and `discover` publishes
// (discover.go). They are marked, so that [Diff] compares only what the file says.
//
// [Redact] rewrites a file so that others may see it, for a bug report. The type of a setting marks
// it as a secret, so a new setting of type Secret is hidden automatically.
//
// # Design
//
// Reading and checking are separate. Package strictyaml knows the form of single values and their
// places; the checks here (validate*.go) know the rules between values, and skip what could not be
// read.
//
// No message holds a secret. An excerpt is cut where a secret, or what may be one, begins: the rest
// of the line is not shown, to be safe. Messages show ${VAR} and not its value, and never quote a
// hash, a secret or a URL's user. A test plants canaries in every place we could think of.
package config
