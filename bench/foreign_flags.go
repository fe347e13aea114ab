package bench

import (
	"reflect"
	"slices"
	"strings"
)

// foreign are flags of other load testers that ours cannot or need not honour, and what to do instead. Such a flag is refused: a run that
// leaves it unheeded would measure something else than what it says.
var foreign = []struct {
	flags   []string
	instead string
}{
	{
		[]string{"tokenizer", "tokenizer-mode", "trust-remote-code", "skip-tokenizer-init"},
		"tokens are counted by the server, by its usage or else its /tokenize, and no tokenizer is loaded: leave the flag out",
	},
	{
		[]string{"apply-chat-template", "skip-chat-template", "chat-template", "tokenize-prompt"},
		"prompts are text, and the engine applies its own template: leave the flag out, or send text without a template by --backend completions",
	},
	{[]string{"logprobs", "return-logprob", "top-logprobs-num"}, `say it in the body: --extra-body '{"logprobs":true}'`},
	{[]string{"use-beam-search"}, `say it in the body: --extra-body '{"use_beam_search":true}'`},
	{[]string{"lora-modules", "lora-name", "lora-assignment"}, "an adapter is a model: --model NAME, or several by --mix chat@A:1,chat@B:1"},
	{
		[]string{"hf-name", "hf-subset", "hf-split", "hf-output-len", "no-oversample", "sonnet-input-len", "sonnet-output-len", "sonnet-prefix-len", "public-dataset", "data"},
		"data sets are files: --dataset-name sharegpt, custom or trace with --dataset-path FILE",
	},
	{[]string{"gsp-prompts-per-group"}, "say the number of all requests: --num-prompts N, which --num-prefixes share evenly"},
	{[]string{"request-id-prefix"}, "requests carry no id of ours, the server makes them: the JSONL of -o FILE.jsonl numbers them in order of schedule"},
	{[]string{"output-file", "output-path", "artifact-dir"}, "say -o FILE.json, or --result-dir DIR --result-filename NAME --append-result for one object a line"},
	{[]string{"output-details"}, "say --save-detailed"},
	{[]string{"disable-ignore-eos"}, "that is the default; --ignore-eos asks for answers of full length"},
	{[]string{"streaming", "stream"}, "that is the default; --no-stream asks for whole answers"},
	{[]string{"benchmark-duration", "max-seconds", "max-duration"}, "say -z 30s"},
	{[]string{"max-requests"}, "say -n 1000"},
	{[]string{"rate", "rate-type"}, "say -r 5 for requests a second, with --arrival poisson, gamma or constant, -c 8 for a closed loop, or --profile sweep"},
	{[]string{"pd-separated", "pd-separation"}, "the edge in front of the engines knows which is which: measure its base URL"},
	{[]string{"profile"}, "it takes sweep or search here; for a torch trace ask vLLM for one during the run: --at 5s:post=URL/start_profile"},
}

// isRun reports whether a command line is one of `bench run`, which may leave "run" out, and where what follows begins.
func isRun(args []string) (at int, ok bool) {
	switch {
	case len(args) < 2 || args[0] != "bench":
		return 0, false
	case args[1] == "run":
		return 2, true
	}
	return 1, !slices.Contains(commands, args[1])
}

// commands are the names of the commands below `bench`.
var commands = func() []string {
	var out []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[CLI]()) {
		out = append(out, strings.ToLower(f.Name))
	}
	return out
}()

// foreignFlag returns the first foreign flag of a command line of `bench run`, without its dashes; empty when there is none. --profile
// is foreign without a value, as vLLM's tool has it.
func foreignFlag(args []string) string {
	at, ok := isRun(args)
	if !ok {
		return ""
	}
	for i := at; i < len(args) && args[i] != "--"; i++ {
		flag, isLong := strings.CutPrefix(args[i], "--")
		name, _, joined := strings.Cut(flag, "=")
		switch {
		case !isLong || insteadOf(name) == "":
		case name != "profile", !joined && (i+1 == len(args) || strings.HasPrefix(args[i+1], "-") || strings.Contains(args[i+1], "://")):
			return name
		}
	}
	return ""
}

// insteadOf says what to do instead of a foreign flag; empty for any other.
func insteadOf(flag string) string {
	for _, f := range foreign {
		if slices.Contains(f.flags, flag) {
			return f.instead
		}
	}
	return ""
}
