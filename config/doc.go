// Package config reads and validates the configuration of Penstock, which is a single YAML file.
// The package opens no sockets, writes no logs and contains no HTTP code. The program is built from
// the [File] that it returns.
//
// # The file
//
// All settings except names and references have defaults. The following configuration is complete:
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
// [Example] shows every key with its meaning, and [Schema] describes them for editors. All defaults
// are in [Defaults] and in the SetDefaults methods of list entries. Files are decoded over the
// defaults. A key without a value therefore keeps its default. An empty list stays empty.
//
// # From text to File
//
// [Load] reads a file in these steps. [Parse] does the same for a source in memory.
//
//  1. strictyaml.Read parses the text and binds it to the structs by their yaml tags. It resolves
//     ${VAR}, file: secrets, durations and sizes. It records the line of each value under the
//     value's path. If a setting existed only in earlier versions, it is ignored and a warning is
//     reported (retired.go).
//  2. normalize resolves paths relative to the file's folder and removes the final slash of URLs.
//  3. hashCertificateFiles checks that certificates are readable.
//  4. readKeys reads the keys_file in the same way as the file and appends the keys in it.
//  5. deriveSettings sets defaults that depend on other values, such as a deployment's served name.
//
// [File.Validate] then checks the rules between values. [LoadValid] runs all steps, even if it
// finds mistakes while reading. A single run therefore reports mistakes of every kind. Each mistake
// has a line and an excerpt of the source, and [Problems] prints them.
//
// # Changes
//
// [Diff] lists the changes between two Files without their values, and marks those that need a
// restart. Package filewatch reports when the contents of files change.
//
// [WithDiscoveredModels] returns a File with the models that `discover` publishes from the engines' lists
// (discover.go). Such models are marked as discovered, and [Diff] ignores them.
//
// [Redact] removes the secrets from a file, for example for a bug report. Every setting of type
// Secret is a secret, so a new setting of this type is removed automatically.
//
// # Design
//
// Reading and validating are separate. Package strictyaml checks the format of single values and
// records their positions. The checks in this package (validate*.go) implement the rules between
// values, and skip values that could not be read.
//
// No message contains a secret. An excerpt ends before a secret or a text that may be one. Messages
// show ${VAR} instead of its value. They never quote a hash, a secret or the user in a URL. A test
// puts canaries in all places where a secret may occur.
package config
