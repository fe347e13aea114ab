// Package config is Penstock's one YAML file: its form, its defaults, and what is wrong with it.
// Nothing here is live: the package opens no socket, logs nothing and knows nothing of HTTP.
// Everything that serves requests is built from the [File] that it returns.
//
// # The file
//
// What has no default is what names something. This is a whole configuration:
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
// [Example] shows every key with its meaning; [Schema] describes them to editors. [Defaults] and
// the SetDefaults of the entries of lists are the only places where a default stands, and files are
// decoded over them: a key without a value keeps its default, and an empty list is empty, not
// absent.
//
// # From text to File
//
// [Load] reads a file in these steps, and [Parse] the same from memory:
//
//  1. strictyaml.Read: the text is parsed, and bound to the structs by their yaml tags,
//     with ${VAR}, file: secrets, durations and sizes resolved. Each leaves its line under its
//     path. Settings of earlier versions are ignored with a warning (retired.go).
//  2. normalize: paths are joined with the file's folder, URLs lose a trailing slash, certificates
//     must be readable.
//  3. readKeys: the keys_file goes through the same steps, and its keys are appended.
//  4. complete: defaults that depend on other values, such as a deployment's served name.
//
// [File.Validate] then checks what ties values together. [LoadValid] runs all of it over whatever
// could be read, so that mistakes of every class are reported at once, each with its line and an
// excerpt of the source; [Problems] prints them.
//
// # Changes
//
// [Diff] lists what changed between two Files, by the names of things and without any value, and
// what of it a running process cannot take over. Package filewatch reports when the content of
// files changed.
//
// [WithListed] returns a File with the models that engines list and `discover` publishes
// (discover.go). They are marked, so that [Diff] compares what was written alone.
//
// [Redact] writes a file anew as somebody else may see it, for a bug report: what is a secret is
// known by the type of each setting, so a new setting is hidden because it is a Secret.
//
// # Design
//
// Reading and checking are apart. Package strictyaml knows the form of single values and where each
// stands; the groups of checks here (validate*.go) know what ties values together, and skip what
// could not be read.
//
// No secret in any message. Excerpts are cut where a secret stands, or what may be one: the rest of
// the line after it is lost, which is the safe side. Messages show ${VAR} and not what it holds,
// and never quote a hash, a secret or a URL's user. A test plants canaries in every place we could
// think of.
package config
