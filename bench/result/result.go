package result

import "strings"

//go:generate go test -run TestSchema -update .

// SchemaVersion is the version of the "penstock" object. It grows when a member changes its meaning
// or is removed, not for new members.
const SchemaVersion = 2

// Result is the outcome of one run: the file that -o FILE.json writes. Its top level is what vLLM's
// serving benchmark writes; our own members are in Penstock. Times are milliseconds unless the name
// says otherwise. A null was not measured; Summary.Unmeasured gives the reason.
type Result struct {
	// Date is the start of the run, as 20060102-150405 in local time.
	Date string `json:"date"`
	// EndpointType repeats Backend, for readers of old files.
	EndpointType string `json:"endpoint_type"`
	// Backend is the dialect, with vLLM's name if it has one (openai-chat), otherwise ours; "mix"
	// for several.
	Backend string `json:"backend"`
	// Label is always null, and exists for readers of vLLM's files. Operators use --metadata
	// instead.
	Label *string `json:"label"`
	// ModelID is the requested model.
	ModelID string `json:"model_id"`
	// TokenizerID is always null: the server counts tokens. See Penstock.Tokens.
	TokenizerID *string `json:"tokenizer_id"`
	// NumPrompts is the number of measured requests.
	NumPrompts int `json:"num_prompts"`
	// RequestRate is the requested rate of an open loop in requests per second, "inf" for a closed
	// loop. With several stages it is that of the last one.
	RequestRate Rate `json:"request_rate"`
	// Burstiness is the shape of the gamma distribution of arrivals: 1 Poisson, "inf" constant.
	Burstiness Rate `json:"burstiness"`
	// MaxConcurrency bounds the requests in flight; null: no bound. With several stages it is that
	// of the last one.
	MaxConcurrency *int `json:"max_concurrency"`
	// RampUpStrategy and the two rates describe a ramp.
	RampUpStrategy string `json:"ramp_up_strategy,omitempty"`
	// RampUpStartRPS is the rate at which the ramp starts.
	RampUpStartRPS *float64 `json:"ramp_up_start_rps,omitempty"`
	// RampUpEndRPS is the rate at which the ramp ends.
	RampUpEndRPS *float64 `json:"ramp_up_end_rps,omitempty"`
	// Duration is the wall time of the measured part in seconds, including the end of the last
	// requests.
	Duration float64 `json:"duration"`
	// Completed is the number of measured requests with a complete answer.
	Completed int `json:"completed"`
	// Failed is the number of measured requests without a complete answer. Clients that left on
	// purpose are in neither number.
	Failed int `json:"failed"`
	// TotalInputTokens is the sum over completed requests; null when unknown.
	TotalInputTokens *int64 `json:"total_input_tokens"`
	// TotalOutputTokens is the sum over completed requests; null when unknown.
	TotalOutputTokens *int64 `json:"total_output_tokens"`
	// RequestThroughput is Completed / Duration.
	RequestThroughput *float64 `json:"request_throughput"`
	// RequestGoodput is the number of requests per second that met every objective of --goodput;
	// null without objectives.
	RequestGoodput *float64 `json:"request_goodput"`
	// OutputThroughput is TotalOutputTokens / Duration.
	OutputThroughput *float64 `json:"output_throughput"`
	// TotalTokenThroughput is (input + output tokens) / Duration.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	// MaxOutputTokensPerS is the best second of the time series, in tokens, not in chunks.
	MaxOutputTokensPerS *float64 `json:"max_output_tokens_per_s"`
	// MaxConcurrentRequests is the highest number of requests in flight.
	MaxConcurrentRequests int `json:"max_concurrent_requests"`
	// RTFX is seconds of transcribed audio per second of wall time; null without transcriptions.
	RTFX *float64 `json:"rtfx"`

	// Measures are the flat statistics of TTFT, TPOT, ITL and E2EL: mean_ttft_ms, median_ttft_ms,
	// std_ttft_ms, p99_ttft_ms and so on, with p50, p90, p95 and p99. They are at the top level of
	// the file.
	Measures map[string]*float64 `json:"-"`
	// Metadata holds the pairs given with --metadata. They are at the top level of the file.
	Metadata map[string]string `json:"-"`

	// Penstock is everything that vLLM's file lacks. It is absent from files of other tools.
	Penstock *Penstock `json:"penstock"`
}

// Penstock is our own part of the result.
type Penstock struct {
	// SchemaVersion is SchemaVersion.
	SchemaVersion int `json:"schema_version"`
	// Verdict says whether the numbers can be trusted.
	Verdict Verdict `json:"verdict"`
	// Interrupted is true when the run was stopped before its end. The numbers cover the part
	// before that.
	Interrupted bool `json:"interrupted"`
	// Target is what was measured.
	Target Target `json:"target"`
	// Scenario is what --scenario played; null without.
	Scenario *Scenario `json:"scenario"`
	// Load compares the requested load with the delivered one.
	Load LoadSummary `json:"load"`
	// Total sums up the measured requests of all stages.
	Total Summary `json:"total"`
	// Stages are the parts of the run with a load of their own, in order; at least one.
	Stages []Stage `json:"stages"`
	// Phases are at most 12 parts of a trace's time, of one length; empty without a trace.
	Phases []Phase `json:"phases"`
	// ByDialect has an entry for each dialect of a mix, or the only one.
	ByDialect map[string]*Summary `json:"by_dialect"`
	// ByUpstream has an entry for each upstream that the edge named in X-Penstock-Upstream; empty
	// when it named none.
	ByUpstream map[string]*Summary `json:"by_upstream"`
	// Search is the outcome of --profile sweep or search; null without.
	Search *Search `json:"search"`
	// Compare is the second target of --compare-url; null without.
	Compare *Comparison `json:"compare"`
	// Series is the run over time.
	Series Series `json:"series"`
	// Tokens says where token counts come from.
	Tokens TokenCounts `json:"tokens"`
	// Client is the state of the load tester itself during the run.
	Client Client `json:"client"`
	// Floor is what the client measures against a server that does nothing; null if not measured.
	Floor *Floor `json:"floor"`
	// Leave is about clients that left on purpose; null without.
	Leave *Leaving `json:"leave"`
	// Events are those of --at, in order of time.
	Events []Event `json:"events"`
	// Telemetry are the metrics of engine and edge, sampled during the run.
	Telemetry []Telemetry `json:"telemetry"`
	// Objectives are those of --goodput.
	Objectives []Objective `json:"objectives"`
	// ExpectErrors are the failures that belong to the test, as given by --expect-errors.
	ExpectErrors []string `json:"expect_errors"`
	// Command is the command line, without the values of secrets.
	Command []string `json:"command"`
	// Seed reproduces the workload: lengths, arrivals, mix.
	Seed uint64 `json:"seed"`
	// Nonce was put before every prompt so that no cache had it; empty if caches of earlier runs
	// count.
	Nonce string `json:"nonce"`
	// Environment is where the run took place.
	Environment Environment `json:"environment"`
	// Assertions are the checks of --assert with their outcomes.
	Assertions []Assertion `json:"assertions,omitempty"`
}

// Scenario is a bundled workload with a name.
type Scenario struct {
	Name string `json:"name"`
	Text string `json:"text"` // one line
	// Explain describes the workload and what to look at, in paragraphs separated by empty lines.
	Explain string `json:"explain"`
	// OwnFleet is true when simulated engines and an edge were started for it.
	OwnFleet bool `json:"own_fleet"`
}

// Verdict says whether a result can be trusted.
type Verdict struct {
	Valid   bool     `json:"valid"`
	Reasons []Reason `json:"reasons"`
}

// Invalidating returns the findings that make the result invalid, in one line.
func (v *Verdict) Invalidating() string {
	var out []string
	for _, why := range v.Reasons {
		if why.Invalidates {
			out = append(out, why.Text)
		}
	}
	return strings.Join(out, "; ")
}

// Reason is one finding of the verdict.
type Reason struct {
	// Code is a closed word, such as client_saturated.
	Code string `json:"code"`
	// Text is a sentence for people, with the numbers.
	Text string `json:"text"`
	// Invalidates is true when the finding makes the result invalid; false for a mere notice.
	Invalidates bool `json:"invalidates"`
}

// Target is a server under test.
type Target struct {
	BaseURL string `json:"base_url"`
	// Engine is the kind of server, from /v1/models or a known page: edge, vllm, llamacpp, sim, …;
	// empty when unknown.
	Engine string `json:"engine"`
}

// Assertion is a check that decides on exit code 99.
type Assertion struct {
	Text  string   `json:"text"`
	Value *float64 `json:"value"`
	OK    bool     `json:"ok"`
	// Reason says why it failed or could not be judged.
	Reason string `json:"reason"`
}

// Environment is where the run took place.
type Environment struct {
	Version string `json:"version"` // of penstock
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	CPU     string `json:"cpu"` // model name; empty when unknown
	// FileLimit is the process's limit of file descriptors; 0 when unknown.
	FileLimit uint64 `json:"file_limit"`
}
