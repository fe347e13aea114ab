package bench

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:generate go test -run TestSchema -update .

//go:embed result.schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of the result file. The caller must not change it.
func Schema() []byte { return schema }

// SchemaVersion is the version of the "penstock" object. It grows when a member changes its meaning or goes; new members do
// not change it.
const SchemaVersion = 1

// Result is the outcome of one run: the file that --save-result writes. Its top level is what vLLM's serving benchmark writes;
// all that is ours is in Penstock. Times are milliseconds unless the name says otherwise. What is null was not measured, and
// Summary.Unmeasured says why.
type Result struct {
	// Date is the start of the run, as 20060102-150405 in local time.
	Date string `json:"date"`
	// EndpointType is Backend once more, for readers of old files.
	EndpointType string `json:"endpoint_type"`
	// Backend is the dialect spoken, in vLLM's words where it has one (openai-chat), else ours; "mix" for several.
	Backend string `json:"backend"`
	// Label is the text of --label.
	Label *string `json:"label"`
	// ModelID is the model that was asked for.
	ModelID string `json:"model_id"`
	// TokenizerID is always null: tokens are counted by the server. See Penstock.Tokens.
	TokenizerID *string `json:"tokenizer_id"`
	// NumPrompts is the number of measured requests.
	NumPrompts int `json:"num_prompts"`
	// RequestRate is the requested rate of an open loop in requests per second, "inf" for a closed one. Of several stages it is
	// the last one's.
	RequestRate Rate `json:"request_rate"`
	// Burstiness is the shape of the gamma distribution of arrivals: 1 Poisson, "inf" constant.
	Burstiness Rate `json:"burstiness"`
	// MaxConcurrency bounds the requests in flight; null: no bound. Of several stages it is the last one's.
	MaxConcurrency *int `json:"max_concurrency"`
	// RampUpStrategy and the two rates are those of a ramp.
	RampUpStrategy string `json:"ramp_up_strategy,omitempty"`
	// RampUpStartRPS is the rate at which the ramp starts.
	RampUpStartRPS *float64 `json:"ramp_up_start_rps,omitempty"`
	// RampUpEndRPS is the rate at which the ramp ends.
	RampUpEndRPS *float64 `json:"ramp_up_end_rps,omitempty"`
	// Duration is the wall time of the measured part in seconds, the tail of the last requests included.
	Duration float64 `json:"duration"`
	// Completed is the number of measured requests that were answered whole.
	Completed int `json:"completed"`
	// Failed is the number of measured requests that were not. Clients that left on purpose are in neither.
	Failed int `json:"failed"`
	// TotalInputTokens is the sum over completed requests; null when unknown.
	TotalInputTokens *int64 `json:"total_input_tokens"`
	// TotalOutputTokens is the sum over completed requests; null when unknown.
	TotalOutputTokens *int64 `json:"total_output_tokens"`
	// RequestThroughput is Completed / Duration.
	RequestThroughput *float64 `json:"request_throughput"`
	// RequestGoodput is the number of requests per second that met every objective of --goodput; null without.
	RequestGoodput *float64 `json:"request_goodput"`
	// OutputThroughput is TotalOutputTokens / Duration.
	OutputThroughput *float64 `json:"output_throughput"`
	// TotalTokenThroughput is input and output tokens / Duration.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	// MaxOutputTokensPerS is the best second of the time series, in tokens, not in chunks.
	MaxOutputTokensPerS *float64 `json:"max_output_tokens_per_s"`
	// MaxConcurrentRequests is the highest number of requests in flight.
	MaxConcurrentRequests int `json:"max_concurrent_requests"`
	// RTFX is seconds of transcribed audio per second of wall time; null without transcriptions.
	RTFX *float64 `json:"rtfx"`

	// Measures are the flat statistics: mean_ttft_ms, median_ttft_ms, std_ttft_ms, p99_ttft_ms and so on, for the metrics of
	// --percentile-metrics and the percentiles of --metric-percentiles. They stand at the top level of the file.
	Measures map[string]*float64 `json:"-"`
	// Metadata are the pairs of --metadata. They stand at the top level of the file.
	Metadata map[string]string `json:"-"`
	// Detailed are the arrays of --save-detailed, at the top level of the file; nil without.
	Detailed *Detailed `json:"-"`

	// Penstock is everything that vLLM's file lacks. It is absent from files of other tools.
	Penstock *Penstock `json:"penstock"`
}

// Detailed are vLLM's parallel arrays, one element per measured request in order of schedule, in seconds.
type Detailed struct {
	InputLens  []*int      `json:"input_lens"`
	OutputLens []*int      `json:"output_lens"`
	TTFTs      []*float64  `json:"ttfts"`
	ITLs       [][]float64 `json:"itls"`
	StartTimes []float64   `json:"start_times"` // of sending, since the start of the run
	Latencies  []*float64  `json:"latencies"`   // end to end
	Errors     []string    `json:"errors"`      // kind, empty for none
}

// Penstock is our own part of the result.
type Penstock struct {
	// SchemaVersion is SchemaVersion.
	SchemaVersion int `json:"schema_version"`
	// Verdict says whether the numbers mean what they seem to.
	Verdict Verdict `json:"verdict"`
	// Interrupted is true when the run was stopped before its end: what follows is what had been measured.
	Interrupted bool `json:"interrupted"`
	// Target is what was measured.
	Target Target `json:"target"`
	// Load is the load that was asked for and the one that was delivered.
	Load LoadSummary `json:"load"`
	// Total is every measured request of all stages.
	Total Summary `json:"total"`
	// Stages are the parts of the run with a load of their own, in order; at least one.
	Stages []Stage `json:"stages"`
	// ByDialect has an entry for each dialect of a mix, or the only one.
	ByDialect map[string]*Summary `json:"by_dialect"`
	// ByUpstream has an entry for each upstream that the edge named in X-Penstock-Upstream; empty when it named none.
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
	// Floor is what the client measures against a server that does nothing; null with --no-floor.
	Floor *Floor `json:"floor"`
	// Leave is about clients that left on purpose; null without.
	Leave *Leaving `json:"leave"`
	// Events are those of --at, in order of time.
	Events []Event `json:"events"`
	// Telemetry are the metrics of engine and edge, sampled during the run.
	Telemetry []Telemetry `json:"telemetry"`
	// Objectives are those of --goodput.
	Objectives []Objective `json:"objectives"`
	// Command is the command line, without the values of secrets.
	Command []string `json:"command"`
	// Seed makes the workload again: lengths, arrivals, mix.
	Seed uint64 `json:"seed"`
	// Nonce is what was put before every prompt so that no cache knew it; empty with --allow-cache.
	Nonce string `json:"nonce"`
	// Environment is where it ran.
	Environment Environment `json:"environment"`
	// Assertions are the checks of --assert and --max-regress, filled by them.
	Assertions []Assertion `json:"assertions,omitempty"`
}

// Verdict says whether a result can be trusted.
type Verdict struct {
	Valid   bool     `json:"valid"`
	Reasons []Reason `json:"reasons"`
}

// Reason is one finding of the verdict.
type Reason struct {
	// Code is a closed word, such as client_saturated.
	Code string `json:"code"`
	// Text is a sentence for people, with the numbers.
	Text string `json:"text"`
	// Invalidates is true when the result is not valid because of it; false for what one should know.
	Invalidates bool `json:"invalidates"`
}

// Target is a server under test.
type Target struct {
	BaseURL string `json:"base_url"`
	// Engine is what /v1/models or a known page said it is: edge, vllm, llamacpp, sim, …; empty when unknown.
	Engine string `json:"engine"`
}

// LoadSummary compares the load asked for with the one delivered.
type LoadSummary struct {
	// Mode is open, closed or trace.
	Mode string `json:"mode"`
	// Arrival is constant, poisson, gamma, ramp or trace; empty in a closed loop.
	Arrival string `json:"arrival"`
	// Mix is the share of each dialect, summing to 1.
	Mix map[string]float64 `json:"mix"`
	// Dataset is random, prefix_repetition, sharegpt, custom or trace; empty in files that do not say it.
	Dataset string `json:"dataset"`
	// InputLength and OutputLength are the lengths asked for, in tokens, as their flags say them: 512, uniform:100-900 or
	// lognormal:512,0.8; empty where the dataset has its own.
	InputLength  string `json:"input_length"`
	OutputLength string `json:"output_length"`
	// Streamed is true when streams were asked for, of the dialects that have them.
	Streamed bool `json:"streamed"`
	// RequestedRate is in requests per second over the measured part; null in a closed loop.
	RequestedRate *float64 `json:"requested_rate"`
	// AchievedRate is what was sent.
	AchievedRate *float64 `json:"achieved_rate"`
	// WarmupRequests were sent before the measured part, and are in no number.
	WarmupRequests int `json:"warmup_requests"`
	// CooldownRequests came after it.
	CooldownRequests int `json:"cooldown_requests"`
}

// Stage is a part of the run with a load of its own.
type Stage struct {
	Name string `json:"name"` // such as "rate 20" or "concurrency 8"
	// Rate is the requested rate in requests per second; null in a closed loop.
	Rate *float64 `json:"rate"`
	// Concurrency is the bound of requests in flight; null when there is none.
	Concurrency *int `json:"concurrency"`
	// StartS and EndS are seconds since the start of the run.
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	// AchievedRate is what was sent, per second.
	AchievedRate *float64 `json:"achieved_rate"`
	// Met says whether the objectives of --goodput were met by the stage as a whole; null without objectives.
	Met *bool `json:"met"`
	// Broke names the objectives that were not met.
	Broke []string `json:"broke"`
	Summary
}

// Names of the measures in Summary.Latency and in the flat keys.
const (
	TTFT             = "ttft"               // sent to first token
	TTFV             = "ttfv"               // sent to first visible token
	ITL              = "itl"                // gaps between tokens, pooled
	TPOT             = "tpot"               // mean gap of a request
	E2EL             = "e2el"               // sent to last byte
	TTFTFromSchedule = "ttft_from_schedule" // scheduled to first token
	E2ELFromSchedule = "e2el_from_schedule" // scheduled to last byte
	ScheduleDelay    = "schedule_delay"     // scheduled to sent: vLLM's client queue time
	Queue            = "queue"              // in the edge, as it says
	Connect          = "connect"            // new connections only
)

// Measures lists the names of all measures in the order in which reports show them.
func Measures() []string {
	return []string{TTFT, TTFV, TPOT, ITL, E2EL, TTFTFromSchedule, E2ELFromSchedule, ScheduleDelay, Queue, Connect}
}

// Summary holds the measures of a set of requests.
type Summary struct {
	// Requests were sent in the measured part: Completed + Failed + Left.
	Requests  int `json:"requests"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Left      int `json:"left"` // clients that left on purpose
	// Seconds is the wall time that the rates below are over.
	Seconds float64 `json:"seconds"`
	// ErrorRate is Failed / (Completed + Failed).
	ErrorRate *float64 `json:"error_rate"`
	// InputTokens, OutputTokens and CachedTokens are sums over completed requests. Cached ones are part of the input.
	InputTokens  *int64 `json:"input_tokens"`
	OutputTokens *int64 `json:"output_tokens"`
	CachedTokens *int64 `json:"cached_tokens"`
	// CachedShare is CachedTokens / InputTokens over the requests that said how many were cached.
	CachedShare *float64 `json:"cached_share"`
	// Rates are per second.
	RequestThroughput *float64 `json:"request_throughput"`
	InputThroughput   *float64 `json:"input_throughput"`
	OutputThroughput  *float64 `json:"output_throughput"`
	Goodput           *float64 `json:"goodput"`
	// GoodShare is the share of completed and failed requests that met every objective; a failed one meets none.
	GoodShare *float64 `json:"good_share"`
	// MeanConcurrency is the sum of latencies / Seconds.
	MeanConcurrency *float64 `json:"mean_concurrency"`
	// Latency has an entry for every name of Measures; null when not measured.
	Latency map[string]*Distribution `json:"latency"`
	// CoalescedShare is the share of token events that came in one read together with an earlier one: their gaps say
	// nothing and are not in ITL.
	CoalescedShare *float64 `json:"coalesced_share"`
	// Errors are the failures, most frequent first.
	Errors []ErrorCount `json:"errors"`
	// StreamFaults counts streams that were wrong, by kind: see Fault. It includes those that failed because of it.
	StreamFaults map[string]int `json:"stream_faults"`
	// Unmeasured has the reason for each member or measure that is null.
	Unmeasured map[string]string `json:"unmeasured"`
}

// ErrorCount is one kind of failure.
type ErrorCount struct {
	// Kind is one of the closed words of Kinds.
	Kind string `json:"kind"`
	// Status is the HTTP status; 0 when there was none.
	Status int `json:"status"`
	// Code is what the error object said its code or type was, cut to letters of an identifier; may be empty.
	Code  string `json:"code"`
	Count int    `json:"count"`
}

// Label is the kind with its status and code, for people.
func (e ErrorCount) Label() string {
	parts := []string{e.Kind}
	if e.Status != 0 {
		parts = append(parts, strconv.Itoa(e.Status))
	}
	if e.Code != "" {
		parts = append(parts, e.Code)
	}
	return strings.Join(parts, " ")
}

// Distribution is a set of latencies in milliseconds.
type Distribution struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Std   float64 `json:"std"` // of the population
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	// Percentiles by name, such as "50" and "99.9": always 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9 and those asked for.
	Percentiles map[string]float64 `json:"percentiles"`
	// Buckets are the non-empty buckets of an HdrHistogram of 3 significant digits, in order: [middle in ms, count].
	// A CDF is their running sum over Count, and two distributions are merged by adding counts.
	Buckets [][2]float64 `json:"buckets"`
}

// Percentile returns the p-th percentile (0 to 100), interpolated linearly between ranks as numpy does.
func (d *Distribution) Percentile(p float64) float64 {
	if d == nil || d.Count == 0 {
		return math.NaN()
	}
	rank := p / 100 * float64(d.Count-1)
	lo := int64(math.Floor(rank))
	a, b := d.at(lo), d.at(min(lo+1, d.Count-1))
	return min(max(a+(b-a)*(rank-float64(lo)), d.Min), d.Max)
}

// at returns the value of rank i, from 0.
func (d *Distribution) at(i int64) float64 {
	for _, b := range d.Buckets {
		if i -= int64(b[1]); i < 0 {
			return b[0]
		}
	}
	return d.Max
}

// Search is how a sweep or a search for the highest load went.
type Search struct {
	Profile string `json:"profile"` // sweep or search
	// Best is the index in Stages of the highest load that met the objectives; null when none did or none were given.
	Best *int `json:"best"`
	// Rate is the highest rate that met the objectives, in requests per second; null when none did.
	Rate *float64 `json:"rate"`
	// Limit is the lowest rate tried that did not meet them; null when all did.
	Limit *float64 `json:"limit"`
	// Broke is what was not met at Limit.
	Broke []string `json:"broke"`
	// Knee is the index in Stages after which throughput no longer follows the load; null when it always did.
	Knee *int `json:"knee"`
}

// Comparison is the second target of --compare-url, measured interleaved with the first: every second request of the same
// seeded stream went there.
type Comparison struct {
	Target Target `json:"target"`
	// Pairs is the number of pairs of requests of which both were answered.
	Pairs int     `json:"pairs"`
	Total Summary `json:"total"`
	// Differences are first target minus second: what the first one adds.
	Differences []Difference `json:"differences"`
}

// Difference is the difference of one statistic, with an interval.
type Difference struct {
	Measure   string `json:"measure"`   // of Measures
	Statistic string `json:"statistic"` // mean, median, p90, p99
	// First and Second are the statistics of the two targets, in ms.
	First  float64 `json:"first"`
	Second float64 `json:"second"`
	// Delta is First - Second in ms; Low and High are the bounds of its interval.
	Delta float64 `json:"delta"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Confidence is that of the interval, such as 0.95.
	Confidence float64 `json:"confidence"`
	// Significant is true when the interval does not hold 0.
	Significant bool `json:"significant"`
}

// Series is the run over time: columns of equal length. An interval is 1 s, and doubles as often as the run has more than 1200.
type Series struct {
	IntervalS float64 `json:"interval_s"`
	// TS is the start of each interval in seconds since the start of the run (warm-up included).
	TS []float64 `json:"t_s"`
	// Scheduled, Sent, Completed, Failed and Left count requests by the interval in which it happened.
	Scheduled []int `json:"scheduled"`
	Sent      []int `json:"sent"`
	Completed []int `json:"completed"`
	Failed    []int `json:"failed"`
	Left      []int `json:"left"`
	// InFlight is the highest number of requests in flight in the interval.
	InFlight []int `json:"in_flight"`
	// OutputTokens came in the interval.
	OutputTokens []float64 `json:"output_tokens"`
	// Percentiles of what happened in the interval (ttft by the first token, e2el by the end), in ms; null without samples.
	// Keys: ttft, ttft_from_schedule, itl, e2el; below them "50", "90", "99", "max".
	Latency map[string]map[string][]*float64 `json:"latency"`
	// Stage is the index of the stage of each interval's start; -1 in warm-up and cool-down.
	Stage []int `json:"stage"`
}

// Token sources.
const (
	TokensFromUsage    = "usage"
	TokensFromTokenize = "tokenize"
	TokensEstimated    = "estimate"
)

// TokenCounts says where token counts come from: how many completed requests were counted by each source.
type TokenCounts struct {
	Input  map[string]int `json:"input"`  // usage, tokenize, estimate
	Output map[string]int `json:"output"` // usage, tokenize, estimate
}

// Client is the state of the load tester during the measured part.
type Client struct {
	// CPUShare is its processor time over what it could have used (GOMAXPROCS), 0 to 1; null where the system does not tell.
	CPUShare *float64 `json:"cpu_share"`
	// CPUMaxShare is the busiest second.
	CPUMaxShare *float64 `json:"cpu_max_share"`
	CPUSeconds  *float64 `json:"cpu_s"`
	GOMAXPROCS  int      `json:"gomaxprocs"`
	// GCPauseMaxMs is the longest stop of the collector.
	GCPauseMaxMs float64 `json:"gc_pause_max_ms"`
	// WakeDelay is how late a timer of the client fired, sampled during the run.
	WakeDelay *Distribution `json:"wake_delay"`
	// Connections opened in all.
	Connections int `json:"connections"`
	// MaxRSSBytes is the highest resident memory; null where the system does not tell.
	MaxRSSBytes *int64 `json:"max_rss_bytes"`
}

// Floor is what the client measures of a server in its own process that answers at once: no finer claim can be made.
type Floor struct {
	Requests int           `json:"requests"`
	TTFT     *Distribution `json:"ttft"`
	// ITLError is how far gaps were from the 10 ms that the server left.
	ITLError *Distribution `json:"itl_error"`
	E2EL     *Distribution `json:"e2el"`
	// CPUPerTokenUs is the client's and the server's processor time per token together, in microseconds; null where unknown.
	CPUPerTokenUs *float64 `json:"cpu_per_token_us"`
}

// Leaving is about clients that left on purpose, and whether the server noticed.
type Leaving struct {
	Share float64 `json:"share"` // asked for
	Phase string  `json:"phase"` // queued, prefill or tokens=N
	Left  int     `json:"left"`
	// Source is the gauge that was watched, such as vllm:num_requests_running; empty when there was none.
	Source string `json:"source"`
	// Verified is true when the gauge never stayed above what the client had open, false when it did; null when it could not
	// be watched, with the reason in Reason.
	Verified *bool  `json:"verified"`
	Reason   string `json:"reason"`
	// Freed is the time from leaving to the fall of the gauge, by the interval of its sampling; null when not verified.
	Freed *Distribution `json:"freed"`
	// Leaked is by how much the gauge was too high after the run had ended.
	Leaked *int `json:"leaked"`
}

// Event is one event of --at.
type Event struct {
	AtS    float64 `json:"at_s"` // as asked for, since the start of the measured part
	Action string  `json:"action"`
	// StartS and EndS are when it ran, since the start of the run.
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	Error  string  `json:"error"` // empty when it worked
	// Lost is the number of requests that failed within 10 s after it.
	Lost int `json:"lost"`
	// RecoveryS is the time from the event to the last failure within that time; null when there was none.
	RecoveryS *float64 `json:"recovery_s"`
}

// Telemetry is a page of metrics, sampled during the run.
type Telemetry struct {
	Source string `json:"source"` // target, engine or edge
	URL    string `json:"url"`
	// TS are the times of the samples in seconds since the start of the run.
	TS []float64 `json:"t_s"`
	// Metrics are the values by name, one for each time; null where a sample lacks it.
	Metrics map[string][]*float64 `json:"metrics"`
	Error   string                `json:"error"` // why there are no samples, or no more
}

// Objective is one objective of --goodput.
type Objective struct {
	Measure string  `json:"measure"` // ttft, tpot, itl, e2el or error_rate
	Limit   float64 `json:"limit"`   // milliseconds; of error_rate a share, 0 to 1
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
	// FileLimit is the number of descriptors the process may have; 0 when unknown.
	FileLimit uint64 `json:"file_limit"`
}

// Rate is a number that may be infinite, which JSON writes as the string "inf".
type Rate float64

// MarshalJSON writes a number, or "inf".
func (r Rate) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(r), 0) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON reads what MarshalJSON writes, and null as infinite.
func (r *Rate) UnmarshalJSON(b []byte) error {
	if string(b) == `"inf"` || string(b) == "null" {
		*r = Rate(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(r))
}

// flatResult has the members of Result without its methods.
type flatResult Result

// statistic matches the keys that belong into Result.Measures.
var statistic = regexp.MustCompile(`^(mean|median|std|p[0-9]+(\.[0-9]+)?)_.+_ms$`)

// MarshalJSON writes the flat object: fixed members, metadata, statistics in order of name, arrays, then "penstock".
func (r *Result) MarshalJSON() ([]byte, error) {
	fixed, err := json.Marshal((*flatResult)(r))
	if err != nil {
		return nil, err
	}
	tail := bytes.LastIndex(fixed, []byte(`,"penstock":`))
	var b bytes.Buffer
	b.Write(fixed[:tail])
	add := func(name string, v any) {
		value, e := json.Marshal(v)
		key, e2 := json.Marshal(name)
		if e != nil || e2 != nil {
			err = errors.Join(err, e, e2)
		}
		fmt.Fprintf(&b, ",%s:%s", key, value)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Metadata)) {
		add(k, r.Metadata[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Measures)) {
		add(k, r.Measures[k])
	}
	if r.Detailed != nil {
		arrays, e := json.Marshal(r.Detailed)
		if e != nil {
			return nil, e
		}
		b.WriteByte(',')
		b.Write(arrays[1 : len(arrays)-1])
	}
	b.Write(fixed[tail:])
	return b.Bytes(), err
}

// UnmarshalJSON reads a file of ours or of vLLM. Members that it does not know become Metadata when they are strings, and
// are dropped otherwise.
func (r *Result) UnmarshalJSON(b []byte) error {
	*r = Result{}
	if err := json.Unmarshal(b, (*flatResult)(r)); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	if _, ok := all["itls"]; ok {
		r.Detailed = new(Detailed)
		if err := json.Unmarshal(b, r.Detailed); err != nil {
			return err
		}
	}
	for k, raw := range all {
		if fixedMembers[k] {
			continue
		}
		if statistic.MatchString(k) {
			var v *float64
			if err := json.Unmarshal(raw, &v); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			if r.Measures == nil {
				r.Measures = map[string]*float64{}
			}
			r.Measures[k] = v
			continue
		}
		var s string
		if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
			if r.Metadata == nil {
				r.Metadata = map[string]string{}
			}
			r.Metadata[k] = s
		}
	}
	return nil
}

// fixedMembers are the names at the top level that are members of Result.
var fixedMembers = func() map[string]bool {
	b, err := json.Marshal(&flatResult{RampUpStrategy: "x", RampUpStartRPS: new(float64), RampUpEndRPS: new(float64)})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		panic("BUG: " + err.Error())
	}
	names := map[string]bool{}
	for k := range all {
		names[k] = true
	}
	return names
}()

// ReadResult reads a result file. An error names the file.
func ReadResult(path string) (*Result, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	r := new(Result)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("read result %s: %w", path, err)
	}
	return r, nil
}

// Write writes the file: one line, so that --append-result can put several into one file.
func (r *Result) Write(w io.Writer) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
