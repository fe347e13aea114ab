package result

import "strings"

//go:generate go test -run TestSchema -update .

// SchemaVersion is the version of the "penstock" object. It increases when a member is removed or
// changes its meaning, but not when members are added.
const SchemaVersion = 2

// Result is the outcome of a run, as written by -o FILE.json. Its top level has the keys of vLLM's
// serving benchmark, and everything else is in Penstock. Times are in milliseconds unless the name
// says otherwise. Null means that the value was not measured, and Summary.Unmeasured contains the
// reason.
type Result struct {
	// Date is when the run started, as 20060102-150405 in local time.
	Date string `json:"date"`
	// EndpointType repeats Backend, for readers of old files.
	EndpointType string `json:"endpoint_type"`
	// Backend is vLLM's name for the dialect (openai-chat) or, if vLLM has none, the load tester's
	// name. It is "mix" if there is more than one dialect.
	Backend string `json:"backend"`
	// Label is always null. It exists for readers of vLLM's files. Operators use --metadata
	// instead.
	Label *string `json:"label"`
	// ModelID is the requested model.
	ModelID string `json:"model_id"`
	// TokenizerID is always null, because the server counts tokens. See Penstock.Tokens.
	TokenizerID *string `json:"tokenizer_id"`
	// NumPrompts is the number of measured requests.
	NumPrompts int `json:"num_prompts"`
	// RequestRate is the requested rate of an open loop in requests per second, or "inf" for a
	// closed loop. If there is more than one stage, it is the rate in the last one.
	RequestRate Rate `json:"request_rate"`
	// Burstiness is the shape of the gamma distribution for arrivals: 1 is Poisson, "inf" is
	// constant.
	Burstiness Rate `json:"burstiness"`
	// MaxConcurrency is the limit on requests in flight. It is null if there is no limit. If there
	// is more than one stage, it is the limit in the last one.
	MaxConcurrency *int `json:"max_concurrency"`
	// RampUpStrategy is the shape of the ramp, if there is one.
	RampUpStrategy string `json:"ramp_up_strategy,omitempty"`
	// RampUpStartRPS is the rate at the start of the ramp.
	RampUpStartRPS *float64 `json:"ramp_up_start_rps,omitempty"`
	// RampUpEndRPS is the rate at the end of the ramp.
	RampUpEndRPS *float64 `json:"ramp_up_end_rps,omitempty"`
	// Duration is the wall time of the measured part in seconds, until the end of the last request.
	Duration float64 `json:"duration"`
	// Completed is the number of measured requests with a complete response.
	Completed int `json:"completed"`
	// Failed is the number of measured requests without a complete response. Like Completed, it
	// does not include clients that left on purpose.
	Failed int `json:"failed"`
	// TotalInputTokens is the sum over completed requests, or null if unknown.
	TotalInputTokens *int64 `json:"total_input_tokens"`
	// TotalOutputTokens is the sum over completed requests, or null if unknown.
	TotalOutputTokens *int64 `json:"total_output_tokens"`
	// RequestThroughput is Completed / Duration.
	RequestThroughput *float64 `json:"request_throughput"`
	// RequestGoodput is the number of requests per second that met all objectives of --goodput. It
	// is null if there are no objectives.
	RequestGoodput *float64 `json:"request_goodput"`
	// OutputThroughput is TotalOutputTokens / Duration.
	OutputThroughput *float64 `json:"output_throughput"`
	// TotalTokenThroughput is (input + output tokens) / Duration.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	// MaxOutputTokensPerS is the maximum in the time series, in output tokens per second.
	MaxOutputTokensPerS *float64 `json:"max_output_tokens_per_s"`
	// MaxConcurrentRequests is the maximum number of requests in flight.
	MaxConcurrentRequests int `json:"max_concurrent_requests"`
	// RTFX is the number of seconds of audio transcribed per second of wall time, or null if there
	// were no transcriptions.
	RTFX *float64 `json:"rtfx"`

	// Measures are the flat statistics of TTFT, TPOT, ITL and E2EL at the top level of the file,
	// such as mean_ttft_ms, median_ttft_ms, std_ttft_ms and p99_ttft_ms. The percentiles are p50,
	// p90, p95 and p99.
	Measures map[string]*float64 `json:"-"`
	// Metadata contains the pairs from --metadata. In the file, they are at the top level.
	Metadata map[string]string `json:"-"`

	// Penstock contains everything that vLLM's file does not. It is absent from files written by
	// other tools.
	Penstock *Penstock `json:"penstock"`
}

// Penstock is the load tester's part of the result.
type Penstock struct {
	// SchemaVersion is the version of this object.
	SchemaVersion int `json:"schema_version"`
	// Verdict says whether the numbers are trustworthy.
	Verdict Verdict `json:"verdict"`
	// Interrupted is true if the run was interrupted. The numbers then cover the time until the
	// interruption.
	Interrupted bool `json:"interrupted"`
	// Target is the measured server.
	Target Target `json:"target"`
	// Scenario is the scenario given by --scenario, or null.
	Scenario *Scenario `json:"scenario"`
	// Load compares the requested load with the delivered load.
	Load LoadSummary `json:"load"`
	// Total summarises the measured requests of all stages.
	Total Summary `json:"total"`
	// Stages are the parts of the run with different loads, in order. There is at least one.
	Stages []Stage `json:"stages"`
	// Phases are up to 12 equally long parts of a trace. It is empty if no trace was played.
	Phases []Phase `json:"phases"`
	// ByDialect has an entry for each dialect.
	ByDialect map[string]*Summary `json:"by_dialect"`
	// ByUpstream has an entry for each upstream named in the edge's X-Penstock-Upstream header. It
	// is empty if there is no such header.
	ByUpstream map[string]*Summary `json:"by_upstream"`
	// Search is the outcome of --profile sweep or search, or null.
	Search *Search `json:"search"`
	// Compare is the comparison with the target given by --compare-url, or null.
	Compare *Comparison `json:"compare"`
	// Series contains the run over time.
	Series Series `json:"series"`
	// Tokens counts requests by the source of their token counts.
	Tokens TokenCounts `json:"tokens"`
	// Client describes how the load tester performed during the run.
	Client Client `json:"client"`
	// Floor contains the client's measurements against a server that does nothing, or is null.
	Floor *Floor `json:"floor"`
	// Leave describes the clients that left on purpose, or is null.
	Leave *Leaving `json:"leave"`
	// Events lists the scenario's events in chronological order.
	Events []Event `json:"events"`
	// Telemetry contains metrics of the engines and the edge, sampled during the run.
	Telemetry []Telemetry `json:"telemetry"`
	// Objectives are the objectives of --goodput.
	Objectives []Objective `json:"objectives"`
	// ExpectErrors are the failures that --expect-errors names.
	ExpectErrors []string `json:"expect_errors"`
	// Command is the command line without secrets.
	Command []string `json:"command"`
	// Seed is the seed of the workload. The same seed reproduces lengths, arrivals and mix.
	Seed uint64 `json:"seed"`
	// Nonce is a text at the start of every prompt, so that no prompt is cached. It is empty if
	// caches from earlier runs may be used.
	Nonce string `json:"nonce"`
	// Environment describes the machine on which the load tester ran.
	Environment Environment `json:"environment"`
	// Assertions are the checks of --assert and their outcomes.
	Assertions []Assertion `json:"assertions,omitempty"`
}

// Scenario is a bundled workload.
type Scenario struct {
	Name string `json:"name"`
	Text string `json:"text"` // summary in one line
	// Explain describes the workload and the numbers to look at, in paragraphs separated by empty
	// lines.
	Explain string `json:"explain"`
	// OwnFleet is true if simulated engines and an edge were started for the run.
	OwnFleet bool `json:"own_fleet"`
}

// Verdict says whether a result is trustworthy.
type Verdict struct {
	Valid   bool     `json:"valid"`
	Reasons []Reason `json:"reasons"`
}

// InvalidatingText returns the findings that make the result invalid, in one line.
func (v *Verdict) InvalidatingText() string {
	var out []string
	for _, why := range v.Reasons {
		if why.Invalidates {
			out = append(out, why.Text)
		}
	}
	return strings.Join(out, "; ")
}

// Reason is a finding in the verdict.
type Reason struct {
	// Code identifies the kind of finding, such as client_saturated. The set of codes is closed.
	Code string `json:"code"`
	// Text is a human-readable sentence that includes the numbers.
	Text string `json:"text"`
	// Invalidates is true if the finding makes the result invalid.
	Invalidates bool `json:"invalidates"`
}

// Target is a server under test.
type Target struct {
	BaseURL string `json:"base_url"`
	// Engine is the kind of server, detected by /v1/models or a known page: edge, vllm, llamacpp,
	// sim, and others. It is empty if unknown.
	Engine string `json:"engine"`
}

// Assertion is a check that determines exit code 99.
type Assertion struct {
	Text  string   `json:"text"`
	Value *float64 `json:"value"`
	OK    bool     `json:"ok"`
	// Reason explains why the check failed or could not be performed.
	Reason string `json:"reason"`
}

// Environment describes the machine of the load tester.
type Environment struct {
	Version string `json:"version"` // version of penstock
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	CPU     string `json:"cpu"` // model name, or empty if unknown
	// FileLimit is the maximum number of file descriptors of the process, or 0 if unknown.
	FileLimit uint64 `json:"file_limit"`
}
