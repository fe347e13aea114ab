// Package config is Penstock's one YAML file: its form, its defaults, and what is wrong with it. Nothing here is live: the
// package opens no socket, logs nothing and knows nothing of HTTP. Everything that serves requests is built from the [File]
// that it returns.
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
//	      - { upstream: gpu-a, served: meta-llama/Llama-3.3-70B-Instruct }   # what the engine calls it
//
// [Example] shows every key with its meaning; [Schema] tells them to editors. [Defaults], [DefaultKey], [DefaultUpstream] and
// [DefaultModel] are the only places where a default stands, and files are decoded over them: a key without a value keeps
// its default, and an empty list is empty, not absent.
//
// # From text to File
//
// [Load] reads a file in these steps, and [Parse] the same from memory:
//
//  1. document: the text is parsed to one YAML tree. A syntax error ends here, alone.
//  2. binder: the tree is bound to the structs by their yaml tags. ${VAR}, file: secrets, durations and sizes are resolved
//     where they stand. Every value leaves a mark (line, column, source) under its path.
//  3. normalize: paths are joined with the file's folder, URLs lose a trailing slash, certificates must be readable.
//  4. readKeys: the keys_file goes through the same steps, and its keys are appended.
//  5. complete: defaults that depend on other values, such as a deployment's served name.
//
// [File.Validate] then checks what ties values together. [LoadValid] runs all of it over whatever could be read, so that
// mistakes of every class are reported at once, each with its line and an excerpt of the source; [Problems] prints them.
//
// # Changes
//
// [Watcher] tells when the content of files changed, however they were replaced. [Diff] tells what changed between two Files,
// by the names of things and without any value, and what of it a running process cannot take over.
//
// # Design
//
// Own binding instead of the YAML library's decoder. The library stops at its first error, so a file with five mistakes
// would take five runs to repair. Its parser is used, for its tokens have positions; the binding is 300 lines of
// reflection. Other packages that share types with this one, such as engine profiles, read their files with [Decode].
//
// Variables are resolved in the tree, not in the text. So the value of a variable cannot add keys or lists to the file, a
// problem with it has a line, and a comment may show ${VAR} freely.
//
// No echo. A value that could not be read is remembered as broken, and checks that depend on it are skipped: a misspelt
// `name` is one problem and not one for every deployment that refers to it.
//
// No secret in any message. Excerpts are cut where a secret stands, or what may be one: the rest of the line after it is
// lost, which is the safe side. Messages show ${VAR} and not what it holds, and never quote a hash, a secret or a URL's
// user. A test plants canaries in every place we could think of.
//
// Small files cost little. The parser's memory grows with the square of levels, members and documents, so a file is measured by
// its tokens before it is parsed (tokens.go): a keys file that somebody else writes must not take an edge down. What aliases
// multiply is bounded while it is bound, a hundred problems are told of a file, and no text of it at length.
//
// Null is absence. `admin:` with nothing below it means the default, not an empty value, because that is what it looks like
// when its lines are commented out.
//
// Content is the truth for watching. Directory events come too often, too early or, over bind mounts and network file
// systems, not at all; a hash at intervals is always right. Events only make it look sooner. A file that a refused
// configuration names, but the running one does not, is not watched: touch the configuration once the file is there.
package config
