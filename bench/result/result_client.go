package result

// Client describes how the load tester performed during the measured part.
type Client struct {
	// CPUShare is the client's CPU time divided by the CPU time available to it (GOMAXPROCS), from
	// 0 to 1. It is null if the system does not report it.
	CPUShare *float64 `json:"cpu_share"`
	// CPUWaitShare is the time that the client's threads waited for a CPU, divided by the available
	// CPU time. It is null if the system does not report it. On a separate machine, the client
	// would have used CPUShare + CPUWaitShare.
	CPUWaitShare *float64 `json:"cpu_wait_share"`
	// CPUMaxShare is the CPU share in the busiest second.
	CPUMaxShare *float64 `json:"cpu_max_share"`
	CPUSeconds  *float64 `json:"cpu_s"`
	GOMAXPROCS  int      `json:"gomaxprocs"`
	// GCPauseMaxMs is the longest pause of the garbage collector.
	GCPauseMaxMs float64 `json:"gc_pause_max_ms"`
	// WakeDelay is the delay of a timer in the client, sampled during the run.
	WakeDelay *Distribution `json:"wake_delay"`
	// Connections is the number of connections opened.
	Connections int `json:"connections"`
	// MaxRSSBytes is the maximum resident memory, or null if the system does not report it.
	MaxRSSBytes *int64 `json:"max_rss_bytes"`
}

// Floor contains the client's measurements against a server in the same process that responds
// immediately. Smaller differences cannot be measured.
type Floor struct {
	Requests int           `json:"requests"`
	TTFT     *Distribution `json:"ttft"`
	// ITLError is the deviation of gaps from the server's 10 ms.
	ITLError *Distribution `json:"itl_error"`
	E2EL     *Distribution `json:"e2el"`
	// CPUPerTokenUs is the CPU time per token in microseconds, for the client and the server
	// together. It is null if unknown.
	CPUPerTokenUs *float64 `json:"cpu_per_token_us"`
}

// Telemetry contains the metrics of one page, sampled during the run.
type Telemetry struct {
	Source string `json:"source"` // target, engine or edge
	URL    string `json:"url"`
	// TS contains the times of the samples in seconds since the start of the run.
	TS []float64 `json:"t_s"`
	// Metrics contains the values of each metric, one for each time in TS. A value is null if the
	// sample does not contain the metric.
	Metrics map[string][]*float64 `json:"metrics"`
	Error   string                `json:"error"` // why samples are missing
}
