package bench

import (
	"fmt"
	"slices"
	"strings"
)

// oldFlags are the flags of `bench run` that are gone, and what to say instead of them. README.md
// has them as a table.
var oldFlags = []struct{ names, instead string }{
	{"admin-token", "PENSTOCK_ADMIN_TOKEN in the environment"},
	{"append-result label result-dir result-filename save-result", "-o FILE.json, whatever its name; --metadata K=V for words of yours"},
	{"arrival", "--burstiness 1 for Poisson, inf for constant gaps"},
	{"audio-seconds", "--audio-file FILE"},
	{"baseline max-regress", "bench compare BASE.json NEW.json --max-regress 5%"},
	{"compare-key", "PENSTOCK_COMPARE_KEY in the environment"},
	{"concurrency", "--max-concurrency or -c"},
	{"cooldown", ""},
	{"custom-output-len gsp-output-len osl output-len prefix-repetition-output-len sharegpt-output-len", "--random-output-len"},
	{"disable-stream", "--no-stream"},
	{"disable-tqdm no-progress", "--quiet, or 2>/dev/null"},
	{"endpoint", ""},
	{"endpoint-type", "--backend"},
	{"explain", "the formulas of bench/README.md, and of the HTML page"},
	{"extra-request-body frequency-penalty min-p presence-penalty repetition-penalty temperature top-k top-p", `--extra-body, such as '{"temperature":0}'`},
	{"flush-cache reset-kv-cache", "--at 0s:post=ENGINE/reset_prefix_cache; prompts begin with a mark that no cache knows"},
	{"gsp-num-groups prefix-repetition-num-prefixes", "--num-prefixes"},
	{"gsp-question-len input-len isl prefix-repetition-suffix-len", "--random-input-len"},
	{"gsp-system-prompt-len prefix-repetition-prefix-len", "--random-prefix-len"},
	{"host port target", "the base URL as argument, or --base-url"},
	{"image-size", ""},
	{"junit", "the exit code: 99 for a check that fails, 98 for a result that is not valid"},
	{"leave-phase", "--leave-share, such as 0.1@prefill"},
	{"num-warmups warmup-requests", "--warmup"},
	{"metric-percentiles percentile-metrics", "--assert 'p99.9_ttft_ms<500'; the JSON and the HTML have every measure"},
	{"prefix-share", ""},
	{"probe-request-rate", "a second `penstock bench` of short answers beside the first"},
	{"ramp-up-end-rps ramp-up-start-rps ramp-up-strategy", "--ramp, such as 4-24"},
	{"random-range-ratio", "--random-input-len uniform:A-B"},
	{"random-seed", "--seed"},
	{"ready-check-timeout-sec", "until curl -sf URL/health; do sleep 1; done"},
	{"request-count", "--num-prompts or -n"},
	{"save-detailed", "-o FILE.jsonl, a line for each request with its gaps"},
	{"served-model-name", "--model"},
	{"sweep-size", ""},
	{"voice", `--extra-body '{"voice":"NAME"}'`},
}

// refuseOldFlag returns the line that says what became of the first old flag of a command line;
// empty when there is none.
func refuseOldFlag(args []string) string {
	at, ok := isRun(args)
	if !ok {
		return ""
	}
	for i := at; i < len(args) && args[i] != "--"; i++ {
		name, long := strings.CutPrefix(args[i], "--")
		name, _, _ = strings.Cut(name, "=")
		for _, old := range oldFlags {
			switch {
			case !long || !slices.Contains(strings.Fields(old.names), name):
			case old.instead == "":
				return fmt.Sprintf("--%s is gone", name)
			default:
				return fmt.Sprintf("--%s is gone: use %s", name, old.instead)
			}
		}
	}
	return ""
}
