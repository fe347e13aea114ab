package result

// Client is the state of the load tester during the measured part.
type Client struct {
	// CPUShare is its processor time over the time it could have used (GOMAXPROCS), 0 to 1; null if
	// the system does not report it.
	CPUShare *float64 `json:"cpu_share"`
	// CPUWaitShare is the time that its threads were ready to run but others had the processors,
	// over the same; null if the system does not report it. CPUShare + CPUWaitShare is what the
	// client would have used on a machine of its own.
	CPUWaitShare *float64 `json:"cpu_wait_share"`
	// CPUMaxShare is the share of the busiest second.
	CPUMaxShare *float64 `json:"cpu_max_share"`
	CPUSeconds  *float64 `json:"cpu_s"`
	GOMAXPROCS  int      `json:"gomaxprocs"`
	// GCPauseMaxMs is the longest pause by the garbage collector.
	GCPauseMaxMs float64 `json:"gc_pause_max_ms"`
	// WakeDelay is how late a timer of the client fired, sampled during the run.
	WakeDelay *Distribution `json:"wake_delay"`
	// Connections is the number of opened connections.
	Connections int `json:"connections"`
	// MaxRSSBytes is the highest resident memory; null if the system does not report it.
	MaxRSSBytes *int64 `json:"max_rss_bytes"`
}

// Floor is what the client measures against a server in its own process that answers at once. No
// finer claim can be made.
type Floor struct {
	Requests int           `json:"requests"`
	TTFT     *Distribution `json:"ttft"`
	// ITLError is the deviation of gaps from the server's 10 ms.
	ITLError *Distribution `json:"itl_error"`
	E2EL     *Distribution `json:"e2el"`
	// CPUPerTokenUs is the processor time per token of client and server together, in microseconds;
	// null when unknown.
	CPUPerTokenUs *float64 `json:"cpu_per_token_us"`
}

// Telemetry is a page of metrics, sampled during the run.
type Telemetry struct {
	Source string `json:"source"` // target, engine or edge
	URL    string `json:"url"`
	// TS are the times of the samples in seconds since the start of the run.
	TS []float64 `json:"t_s"`
	// Metrics are the values by name, one for each time; null if a sample lacks the metric.
	Metrics map[string][]*float64 `json:"metrics"`
	Error   string                `json:"error"` // why samples are missing or ended
}
