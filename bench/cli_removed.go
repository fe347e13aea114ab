package bench

import (
	"slices"
	"strings"

	"penstock/bench/exit"
)

const acceptCodeHint = "the result is printed all the same: have the script accept exit code 98"

// removedFlags maps removed flags of `bench run`, `bench compare` and `bench report` to their
// replacements.
var removedFlags = map[string]string{
	"base-url":           "give the URL as the argument",
	"backend":            "name the dialect by --mix, such as --mix messages",
	"header":             "give the address of an edge or proxy that adds the header",
	"insecure":           "set SSL_CERT_FILE to the certificate that signed the target's",
	"burstiness":         "requests of a rate come at random (Poisson); play bursts as a trace (--dataset-name trace)",
	"warmup":             "give the first stage twice, such as --request-rate 20,20, and read the second",
	"ignore-retry-after": "give a rate (--request-rate): an open loop sends when its schedule says so",
	"allow-cache":        "let prompts share a beginning by --random-prefix-len",
	"audio-file":         "a transcription sends a tone of 5 s; leave the flag out",
	"extra-body":         "start the engine with such defaults (vLLM: --override-generation-config)",
	"at":                 "play a scenario that has such an event (bench scenarios), or do it beside the run: sleep 30; penstock reload",
	"metadata":           "choose it by the ending of the file's name (--output)",
	"no-floor":           "leave it out: the client's own floor takes a second",
	"allow-invalid":      acceptCodeHint,
	"confidence":         "intervals hold with a confidence of 99.9 %; leave it out",
}

// removedShortFlags maps removed short flags to their long forms.
var removedShortFlags = map[string]string{"-u": "base-url", "-H": "header"}

func checkRemovedFlags(args []string) error {
	at, run := findRunArgs(args)
	if !run && !slices.Contains([]string{"compare", "report"}, args[min(1, len(args)-1)]) {
		return nil
	}
	for _, a := range args[max(at, 1):] {
		if a == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if a == "--"+name || strings.HasPrefix(a, "--"+name+"=") {
			if instead := removedFlags[name]; instead != "" {
				return exit.Usagef("--%s is gone: %s", name, instead)
			}
		} else if name := removedShortFlags[a[:min(2, len(a))]]; name != "" {
			return exit.Usagef("%s (--%s) is gone: %s", a[:2], name, removedFlags[name])
		}
	}
	return nil
}
