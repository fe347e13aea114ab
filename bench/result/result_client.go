package result

// Client is the state of the load tester during the measured part.
type Client struct {
	// CPUShare is its processor time over what it could have used (GOMAXPROCS), 0 to 1; null where
	// the system does not tell.
	CPUShare *float64 `json:"cpu_share"`
	// CPUWaitShare is the time in which its threads were ready to run and others had the
	// processors, over the same; null where the system does not tell. Together with CPUShare it is
	// what the client would have used of a machine of its own.
	CPUWaitShare *float64 `json:"cpu_wait_share"`
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

// Floor is what the client measures of a server in its own process that answers at once: no finer
// claim can be made.
type Floor struct {
	Requests int           `json:"requests"`
	TTFT     *Distribution `json:"ttft"`
	// ITLError is how far gaps were from the 10 ms that the server left.
	ITLError *Distribution `json:"itl_error"`
	E2EL     *Distribution `json:"e2el"`
	// CPUPerTokenUs is the client's and the server's processor time per token together, in
	// microseconds; null where unknown.
	CPUPerTokenUs *float64 `json:"cpu_per_token_us"`
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
