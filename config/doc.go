// Package config reads and checks Penstock's one YAML file. The package opens no socket, does not
// log, and has no HTTP code. The rest of the program is built from the [File] that it returns.
//
// # The file
//
// Only settings that name something have no default. This is a complete configuration:
//
//	keys:
//	  - id: team-a                              # for logs and limits
//	    hash: sha256:9f86d081884c7d65...        # of the key; "penstock key new" prints both
//	upstreams:
//	  - name: gpu-a
//	    url: http://10.0.0.11:8000              # base URL without /v1
//	    api_key: "${GPU_KEY}"                   # or file:PATH, or the text itself
//	models:
//	  - id: llama-3.3-70b                       # the name in requests and answers
//	    aliases: ["claude-*"]                   # other names that requests may use
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
//     with ${VAR}, file: secrets, durations and sizes resolved. Each value's line is kept under its
//     path. Settings of earlier versions are ignored with a warning (retired.go).
//  2. normalize: paths are joined with the file's folder, URLs lose a trailing slash, certificates
//     must be readable.
//  3. readKeys: the keys_file goes through the same steps, and its keys are appended.
//  4. complete: defaults that depend on other values, such as a deployment's served name.
//
// [File.Validate] then checks the rules that relate values to each other. [LoadValid] runs all
// steps even if reading found mistakes, so that one run reports mistakes of every kind. Each
// mistake has its line and an excerpt of the source; [Problems] prints them.
//
// # Changes
//
// [Diff] lists the changes between two Files by name, without any value, and marks those that a
// running process cannot apply. Package filewatch reports when the content of files changed.
//
// [WithListed] returns a File with the models that engines list and `discover` publishes
// (discover.go). These models are marked, so [Diff] ignores them and compares only values from the
// file.
//
// [Redact] rewrites a file so that it can be shown to others, for example in a bug report. The type
// of a setting marks it as a secret, so a new setting of type Secret is hidden automatically.
//
// # Design
//
// Reading and checking are separate. Package strictyaml checks the format of single values and
// records their positions. The checks here (validate*.go) implement the rules between values, and
// skip values that could not be read.
//
// No message contains a secret. An excerpt ends before a secret, or before a text that may be one,
// and omits the remainder of the line. Messages show ${VAR} and not its value, and never quote a
// hash, a secret or a URL's user. A test plants canaries in every place that we could think of.
package config
