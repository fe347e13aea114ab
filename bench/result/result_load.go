package result

// LoadSummary compares the requested load with the delivered one.
type LoadSummary struct {
	// Mode is open, closed or trace.
	Mode string `json:"mode"`
	// Arrival is constant, poisson, gamma, ramp or trace; empty in a closed loop.
	Arrival string `json:"arrival"`
	// Mix is the share of each dialect, summing to 1.
	Mix map[string]float64 `json:"mix"`
	// Dataset is random, prefix_repetition, sharegpt, custom or trace; empty in older files.
	Dataset string `json:"dataset"`
	// InputLength and OutputLength are the requested lengths in tokens, in the form of their flags:
	// 512, uniform:100-900 or lognormal:512,0.8; empty if the dataset has its own.
	InputLength  string `json:"input_length"`
	OutputLength string `json:"output_length"`
	// Streamed is true when streams were requested in the dialects that have them.
	Streamed bool `json:"streamed"`
	// Unstreamed are the dialects in which the target answered without a stream although one was
	// requested.
	Unstreamed []string `json:"unstreamed"`
	// RequestedRate is in requests per second over the measured part; null in a closed loop.
	RequestedRate *float64 `json:"requested_rate"`
	// AchievedRate is the rate that was sent.
	AchievedRate *float64 `json:"achieved_rate"`
	// RetryWaitS is how many seconds in total the clients of a closed loop waited because of a
	// refusal's Retry-After.
	RetryWaitS float64 `json:"retry_wait_s"`
	// WarmupRequests is the number of requests before the measured part. No other number includes
	// them.
	WarmupRequests int `json:"warmup_requests"`
}

// Stage is a part of the run with a load of its own.
type Stage struct {
	Name string `json:"name"` // such as "rate 20" or "concurrency 8"
	// Rate is the requested rate in requests per second; null in a closed loop.
	Rate *float64 `json:"rate"`
	// Concurrency bounds the requests in flight; null: no bound.
	Concurrency *int `json:"concurrency"`
	// StartS and EndS are seconds since the start of the run.
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	// Scheduled is the number of arrivals in the stage's schedule. Random arrivals scatter around
	// Rate, so the schedule shows whether the client kept up. Null in a closed loop and in older
	// files.
	Scheduled *int `json:"scheduled"`
	// SendS is for how many seconds requests were sent; 0 in older files.
	SendS float64 `json:"send_s"`
	// AchievedRate is the number of requests sent per second.
	AchievedRate *float64 `json:"achieved_rate"`
	// Met says whether the stage as a whole met the objectives of --goodput; null without
	// objectives.
	Met *bool `json:"met"`
	// Broke names the objectives that were not met.
	Broke []string `json:"broke"`
	Summary
}

// Phase is a part of a trace's time, and what the fleet did with the requests that were due in it.
type Phase struct {
	// StartS and EndS are seconds since the start of the run.
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	// Requests is the number of requests due; Failed is how many of them got no complete answer.
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	// InputTokens and OutputTokens are those of the requests with a complete answer.
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CachedShare is the part of their input tokens that an engine had in its cache; null if no
	// engine reports it.
	CachedShare *float64 `json:"cached_share"`
	// TTFT is from the schedule; Queue is the wait in the edge. Null where not measured.
	TTFT  *Distribution `json:"ttft"`
	Queue *Distribution `json:"queue"`
	// Waiting is how many requests the engines of --engine-url had in their queues, as a mean over
	// the phase; null if no engine reports it.
	Waiting *float64 `json:"waiting"`
	// Engines is how many requests each upstream had in flight, as a mean over the phase; empty
	// when the edge names none.
	Engines map[string]float64 `json:"engines"`
	// Imbalance is the busiest engine's number over the mean of all: 1 if all have the same, the
	// number of engines if one has everything. Null with fewer than two engines.
	Imbalance *float64 `json:"imbalance"`
}

// Search is the outcome of a sweep or a search for the highest load.
type Search struct {
	Profile string `json:"profile"` // sweep or search
	// Best is the index in Stages of the highest load that met the objectives; null when none did
	// or no objectives were given.
	Best *int `json:"best"`
	// Rate is the highest rate that met the objectives, in requests per second; null when none did.
	Rate *float64 `json:"rate"`
	// Limit is the lowest rate tried that did not meet them; null when all did.
	Limit *float64 `json:"limit"`
	// Broke names the objectives that were not met at Limit.
	Broke []string `json:"broke"`
	// Knee is the index in Stages after which throughput no longer follows the load; null when it
	// always did.
	Knee *int `json:"knee"`
}

// Comparison is the second target of --compare-url, measured interleaved with the first: every
// second request of the same seeded stream went there.
type Comparison struct {
	Target Target `json:"target"`
	// Pairs is the number of request pairs in which both were answered.
	Pairs int     `json:"pairs"`
	Total Summary `json:"total"`
	// Differences are the first target's numbers minus the second's: what the first adds.
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
	// Significant is true when the interval does not contain 0.
	Significant bool `json:"significant"`
}

// Leaving is about clients that left on purpose, and whether the server noticed.
type Leaving struct {
	Share float64 `json:"share"` // asked for
	Phase string  `json:"phase"` // queued, prefill or tokens=N
	Left  int     `json:"left"`
	// Source is the watched gauge, such as vllm:num_requests_running; empty without one.
	Source string `json:"source"`
	// Verified is true when the gauge never stayed above the client's open requests, false when it
	// did; null when it could not be watched, for the reason in Reason.
	Verified *bool  `json:"verified"`
	Reason   string `json:"reason"`
	// Freed is the time from leaving to the fall of the gauge, as exact as its sampling interval;
	// null when not verified.
	Freed *Distribution `json:"freed"`
	// Leaked is by how much the gauge was too high after the run.
	Leaked *int `json:"leaked"`
}

// Event is one event of --at.
type Event struct {
	AtS    float64 `json:"at_s"` // as requested, since the start of the measured part
	Action string  `json:"action"`
	// StartS and EndS are when it ran, in seconds since the start of the run.
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	Error  string  `json:"error"` // empty when it worked
	// Seen is the condition that an event of a scenario waits for, such as "gpu-b is out". It was
	// observed at EndS. Empty for events without a condition.
	Seen string `json:"seen"`
	// Moved is the number of calls that the edge of --admin sent to another engine during the event
	// and within 10 s after it, also in the middle of a stream; null without an edge.
	Moved *int `json:"moved"`
	// Lost is the number of requests that failed during the event and within 10 s after it.
	Lost int `json:"lost"`
	// RecoveryS is the time from the event's start to the last failure within that time; null when
	// there was none.
	RecoveryS *float64 `json:"recovery_s"`
}

// Objective is one objective of --goodput.
type Objective struct {
	Measure string  `json:"measure"` // ttft, tpot, itl, e2el or error_rate
	Limit   float64 `json:"limit"`   // milliseconds; for error_rate a share, 0 to 1
}
