package result

// LoadSummary compares the requested load with the delivered load.
type LoadSummary struct {
	// Mode is open, closed or trace.
	Mode string `json:"mode"`
	// Arrival is constant, poisson, gamma, ramp or trace. It is empty in a closed loop.
	Arrival string `json:"arrival"`
	// Mix contains each dialect's share of the requests. The shares add up to 1.
	Mix map[string]float64 `json:"mix"`
	// Dataset is random, prefix_repetition, sharegpt, custom or trace. It is empty in older files.
	Dataset string `json:"dataset"`
	// InputLength and OutputLength are the requested lengths in tokens, in the format of their
	// flags: 512, uniform:100-900 or lognormal:512,0.8. They are empty if the dataset determines
	// them.
	InputLength  string `json:"input_length"`
	OutputLength string `json:"output_length"`
	// Streamed is true if streams were requested in the dialects that support them.
	Streamed bool `json:"streamed"`
	// Unstreamed contains the dialects in which streams were requested but the target did not
	// stream.
	Unstreamed []string `json:"unstreamed"`
	// RequestedRate is the requested rate in the measured part, in requests per second. It is null
	// in a closed loop.
	RequestedRate *float64 `json:"requested_rate"`
	// AchievedRate is the rate at which requests were sent.
	AchievedRate *float64 `json:"achieved_rate"`
	// RetryWaitS is the total time in seconds that the clients of a closed loop waited because of
	// Retry-After.
	RetryWaitS float64 `json:"retry_wait_s"`
	// WarmupRequests is the number of requests sent before the measured part. No other number
	// includes these requests.
	WarmupRequests int `json:"warmup_requests"`
}

// Stage is a part of the run with a fixed load.
type Stage struct {
	Name string `json:"name"` // such as "rate 20" or "concurrency 8"
	// Rate is the requested rate in requests per second. It is null in a closed loop.
	Rate *float64 `json:"rate"`
	// Concurrency limits the requests in flight. It is null if there is no limit.
	Concurrency *int `json:"concurrency"`
	// StartS and EndS are in seconds since the start of the run.
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	// Scheduled is the number of arrivals in the stage's schedule. The number of random arrivals
	// differs from Rate, so only the schedule can show whether the client kept up. It is null in a
	// closed loop and in older files.
	Scheduled *int `json:"scheduled"`
	// SendS is the time in seconds during which the stage sent requests. It is 0 in older files.
	SendS float64 `json:"send_s"`
	// AchievedRate is the number of requests sent per second.
	AchievedRate *float64 `json:"achieved_rate"`
	// Met reports whether the stage as a whole met the objectives of --goodput. It is null if there
	// are no objectives.
	Met *bool `json:"met"`
	// Missed names the objectives that were missed.
	Missed []string `json:"broke"`
	Summary
}

// Phase is a period of a trace. It shows how the fleet handled the requests that were due in this
// period.
type Phase struct {
	// StartS and EndS are in seconds since the start of the run.
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	// Requests is the number of requests that were due. Failed is the number of these that got no
	// complete response.
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	// InputTokens and OutputTokens are sums over the completed requests.
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CachedShare is the fraction of InputTokens that were cached, or null if no engine reports it.
	CachedShare *float64 `json:"cached_share"`
	// TTFT is measured from the schedule, and Queue is the wait at the edge. Each of them is null
	// if it was not measured.
	TTFT  *Distribution `json:"ttft"`
	Queue *Distribution `json:"queue"`
	// Waiting is the mean number of requests waiting in the queues of the --engine-url engines. It
	// is null if no engine reports this number.
	Waiting *float64 `json:"waiting"`
	// Engines contains the mean number of requests in flight at each upstream. It is empty if the
	// edge names no upstreams.
	Engines map[string]float64 `json:"engines"`
	// Imbalance is the number of requests at the busiest engine divided by the mean. It is 1 if all
	// engines have equally many requests, and equals the number of engines if one engine has all
	// requests. It is null if there are fewer than two engines.
	Imbalance *float64 `json:"imbalance"`
}

// Search is the outcome of a sweep or a search for the highest load.
type Search struct {
	Profile string `json:"profile"` // sweep or search
	// Best is the index in Stages of the highest load that met the objectives. It is null if no load
	// met the objectives, or if there were no objectives.
	Best *int `json:"best"`
	// Rate is the highest rate that met the objectives, in requests per second, or null if no rate
	// met them.
	Rate *float64 `json:"rate"`
	// Limit is the lowest rate that missed the objectives, or null if no rate missed them.
	Limit *float64 `json:"limit"`
	// Missed names the objectives that were missed at Limit.
	Missed []string `json:"broke"`
	// Knee is the index in Stages after which the throughput no longer follows the load. It is null
	// if the throughput always follows the load.
	Knee *int `json:"knee"`
}

// Comparison is the comparison with the --compare-url target. Every second request of the same
// seeded workload went to that target.
type Comparison struct {
	Target Target `json:"target"`
	// Pairs is the number of pairs in which both requests were completed.
	Pairs int     `json:"pairs"`
	Total Summary `json:"total"`
	// Differences are the values of the first target minus those of the second.
	Differences []Difference `json:"differences"`
}

// Difference is the difference in a statistic, with its interval.
type Difference struct {
	Measure   string `json:"measure"`   // one of Measures
	Statistic string `json:"statistic"` // mean, median, p90, p99
	// First and Second are the values for the two targets in ms.
	First  float64 `json:"first"`
	Second float64 `json:"second"`
	// Delta is First - Second in ms. Low and High are the bounds of its interval.
	Delta float64 `json:"delta"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Confidence is the confidence of the interval, such as 0.95.
	Confidence float64 `json:"confidence"`
	// Significant is true if the interval does not contain 0.
	Significant bool `json:"significant"`
}

// Leaving describes the clients that left on purpose, and whether the server noticed their
// departure.
type Leaving struct {
	Share float64 `json:"share"` // requested share
	Phase string  `json:"phase"` // queued, prefill or tokens=N
	Left  int     `json:"left"`
	// Source is the gauge that was observed, such as vllm:num_requests_running. Source is empty if
	// there is no gauge.
	Source string `json:"source"`
	// Verified is true if the gauge never stayed above the client's number of requests in flight,
	// and false otherwise. If the gauge could not be observed, Verified is null and Reason explains
	// why.
	Verified *bool  `json:"verified"`
	Reason   string `json:"reason"`
	// Freed is the time from a client's departure until the gauge fell. It is as precise as the
	// gauge's sampling interval. It is null if the gauge could not be observed.
	Freed *Distribution `json:"freed"`
	// Leaked is the amount by which the gauge was still too high after the run.
	Leaked *int `json:"leaked"`
}

// Event is an event of a scenario.
type Event struct {
	AtS    float64 `json:"at_s"` // requested time, since the start of the measured part
	Action string  `json:"action"`
	// StartS and EndS are when the event started and ended, in seconds since the start of the run.
	StartS float64 `json:"start_s"`
	EndS   float64 `json:"end_s"`
	Error  string  `json:"error"` // empty if there was no error
	// Seen is the condition for which the event waited, such as "gpu-b is out". The condition was
	// observed at EndS. Seen is empty for events without a condition.
	Seen string `json:"seen"`
	// Moved is the number of calls, including running streams, that the --admin edge moved to
	// another engine during the event and the 10 s after it. It is null if there is no edge.
	Moved *int `json:"moved"`
	// Lost is the number of requests that failed during the event and the 10 s after it.
	Lost int `json:"lost"`
	// RecoveryS is the time from the start of the event to the last failure counted in Lost, or
	// null if there was none.
	RecoveryS *float64 `json:"recovery_s"`
}

// Objective is an objective of --goodput.
type Objective struct {
	Measure string  `json:"measure"` // ttft, tpot, itl, e2el or error_rate
	Limit   float64 `json:"limit"`   // in milliseconds; for error_rate, a fraction from 0 to 1
}
