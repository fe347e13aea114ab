package load

import "time"

// Options are the settings of a run, and the flags of `penstock bench run`. The zero value of a
// member is its default; what that is, is said in its help and written in settings. The spelling is
// vLLM's where vLLM has the thing.
type Options struct {
	URL string `arg:"" optional:"" name:"url" help:"Base URL of the target, with or without /v1. Default: an edge on port 4000 of this machine, or what answers on the engines' usual ports."`

	BaseURL      string   `name:"base-url" short:"u" placeholder:"URL" env:"PENSTOCK_BASE_URL,OPENAI_BASE_URL" group:"Target" help:"Base URL, when it is not given as argument."`
	Backend      string   `placeholder:"NAME" group:"Target" help:"Dialect: chat (default), messages, responses, completions, embeddings, transcription, speech; vLLM's names work too."`
	Mix          string   `placeholder:"D:W,…" group:"Target" help:"Several dialects in one run by weight, such as chat:60,messages:30,embeddings@MODEL:10."`
	Model        string   `short:"m" placeholder:"NAME" group:"Target" help:"Model (default: the first one that the target lists)."`
	APIKey       string   `name:"api-key" placeholder:"KEY" env:"PENSTOCK_API_KEY,OPENAI_API_KEY,ANTHROPIC_API_KEY" group:"Target" help:"Key. Arguments can be seen by other users of the machine, the variables cannot."`
	Header       []string `short:"H" sep:"none" placeholder:"K=V" group:"Target" help:"Further header of every request, as K=V or K: V. Repeat it for more."`
	Insecure     bool     `group:"Target" help:"Do not check the certificate of an https target."`
	NoStream     bool     `name:"no-stream" group:"Target" help:"Ask for whole answers instead of streams."`
	CompareURL   string   `name:"compare-url" placeholder:"URL" group:"Target" help:"Measure a second target interleaved with the first, and report the difference with an interval: through the edge and around it."`
	CompareKey   string   `name:"compare-key" placeholder:"KEY" env:"PENSTOCK_COMPARE_KEY" group:"Target" help:"Key of the second target (default: none)."`
	CompareModel string   `name:"compare-model" placeholder:"NAME" group:"Target" help:"Model of the second target (default: as the first)."`

	NumPrompts     Count         `name:"num-prompts" short:"n" placeholder:"N" group:"Load" help:"Number of requests, of each stage."`
	Duration       Span          `short:"z" placeholder:"D" group:"Load" help:"Time to send requests, of each stage (default: 20s when neither this nor a number is given)."`
	RequestRate    []string      `name:"request-rate" short:"r" placeholder:"R" group:"Load" help:"Open loop: requests per second. A list makes stages. inf: as --max-concurrency allows."`
	Burstiness     float64       `placeholder:"X" group:"Load" help:"Shape of the gamma distribution of gaps: 1 (default) Poisson, below it burstier, above it calmer, inf constant."`
	MaxConcurrency []int         `name:"max-concurrency" short:"c" placeholder:"N" group:"Load" help:"Requests in flight at most; with a rate of inf a closed loop (default then: 8). A list makes stages."`
	Ramp           string        `placeholder:"R-R" group:"Load" help:"Instead of a rate: from one to another over the run, in a straight line, such as 4-24."`
	Warmup         time.Duration `placeholder:"D" group:"Load" help:"First part of each stage that is not measured."`
	Cooldown       time.Duration `placeholder:"D" group:"Load" help:"Last part of each stage that is not measured; it keeps the load up while the measured requests end."`
	Profile        string        `placeholder:"NAME" group:"Load" help:"sweep: one by one, as fast as possible, and rates between. search: the highest rate that meets --goodput."`
	RequestTimeout Span          `name:"request-timeout" placeholder:"D" group:"Load" help:"Time for one request (default: 10m)."`
	LeaveShare     float64       `name:"leave-share" placeholder:"X" group:"Load" help:"Share of the clients that leave on purpose, 0 to 1."`
	LeavePhase     string        `name:"leave-phase" placeholder:"P" group:"Load" help:"When they leave: prefill, tokens=N (default: tokens=5) or after=DURATION."`
	At             []string      `sep:"none" placeholder:"T:WHAT" group:"Load" help:"Event at a time of the run: 30s:reload, 60s:kill=PID, 60s:drain=PID, 30s:post=URL or 30s:post=URL BODY. Repeat it for more."`

	DatasetName string        `name:"dataset-name" placeholder:"NAME" group:"Workload" help:"random (default), prefix_repetition, sharegpt, custom ({\"prompt\":…} a line) or trace ({\"timestamp\",\"input_length\",\"output_length\",\"hash_ids\"} a line, replayed in time)."`
	DatasetPath string        `name:"dataset-path" placeholder:"FILE" group:"Workload" help:"File of sharegpt, custom or trace."`
	TimeScale   float64       `name:"time-scale" placeholder:"X" group:"Workload" help:"Trace: factor on its times; 2 replays at half the speed (default: 1)."`
	InputLen    string        `name:"random-input-len" placeholder:"N" group:"Workload" help:"Prompt length in tokens (default: 1024): N, uniform:A-B or lognormal:MEDIAN,SIGMA."`
	OutputLen   string        `name:"random-output-len" placeholder:"N" group:"Workload" help:"Answer length in tokens (default: 128), likewise."`
	PrefixLen   int           `name:"random-prefix-len" placeholder:"N" group:"Workload" help:"Tokens of a prefix that requests share, before the prompt."`
	NumPrefixes int           `name:"num-prefixes" placeholder:"N" group:"Workload" help:"Different prefixes (default: 1; prefix_repetition: 10)."`
	NumTurns    int           `name:"num-turns" placeholder:"N" group:"Workload" help:"Turns of each conversation, which carry the real replies (default: 1)."`
	TurnDelay   time.Duration `name:"turn-delay" placeholder:"D" group:"Workload" help:"Time between an answer and the next turn."`
	Tools       int           `placeholder:"N" group:"Workload" help:"Tools that each request offers; calls are answered in the next turn."`
	Images      int           `placeholder:"N" group:"Workload" help:"Images in each first turn."`
	ImageSize   string        `name:"image-size" placeholder:"WxH" group:"Workload" help:"Their size in pixels (default: 512x512)."`
	AudioFile   string        `name:"audio-file" placeholder:"FILE" group:"Workload" help:"WAV file to transcribe (default: five seconds of a tone)."`
	Voice       string        `placeholder:"NAME" group:"Workload" help:"Voice of speech (default: alloy)."`
	IgnoreEOS   bool          `name:"ignore-eos" group:"Workload" help:"Ask the engine to write on to the wanted length (ignore_eos)."`
	ExtraBody   string        `name:"extra-body" placeholder:"JSON" group:"Workload" help:"Object whose members are added to every body, such as {\"temperature\":0}."`
	Seed        uint64        `placeholder:"N" group:"Workload" help:"Makes the same lengths, arrivals and texts again (default: 0)."`
	AllowCache  bool          `name:"allow-cache" group:"Workload" help:"Put no nonce before the prompts: what an earlier run left in a cache is used and measured."`

	Goodput      []string `placeholder:"M:MS" group:"Result" help:"Objectives, all of which a good request meets: ttft, tpot, itl, e2el in ms; error_rate (a share) holds for a stage."`
	SaveDetailed bool     `name:"save-detailed" group:"Result" help:"Put each request's lengths, times and gaps into the JSON, too."`
	Output       []string `short:"o" sep:"none" placeholder:"FILE" group:"Result" help:"Write the result to FILE, by its ending: .json, .jsonl (a line for each request), .html (a page with plots). Repeat it for more."`
	Metadata     []string `sep:"none" placeholder:"K=V" group:"Result" help:"Pair for the top level of the JSON. Repeat it for more."`
	Quiet        bool     `short:"q" group:"Result" help:"Print the verdict only."`

	NoFloor      bool     `name:"no-floor" group:"Checks" help:"Do not measure the client's own floor first (1 s)."`
	ExpectErrors []string `name:"expect-errors" sep:"none" placeholder:"WORDS" group:"Checks" help:"Failures that belong to the test, by words that the report has for them, such as '429 capacity_full', or in_stream@event: within 10 s after an event. They do not make the result not valid; others do. Repeat it for more."`
	ReadyCheck   int      `name:"ready-check-timeout-sec" placeholder:"S" group:"Checks" help:"Time to wait for the target to answer (default: 0)."`
	Admin        string   `placeholder:"URL" env:"PENSTOCK_ADMIN" group:"Checks" help:"Admin listener of the edge: its metrics are sampled, and --at T:reload asks it."`
	AdminToken   string   `name:"admin-token" placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" group:"Checks" help:"Its token, where it has one."`
	Engine       []string `name:"engine-url" placeholder:"[NAME=]URL" group:"Checks" help:"Engine behind the target, whose /metrics are sampled, and where clients that left are looked for (default: the target itself)."`

	// MaxStages is how many stages a sweep has (8), and a search at most (12).
	MaxStages int `kong:"-"`
	// Spread is the time in which the clients of a closed loop begin, one after the other.
	Spread time.Duration `kong:"-"`
	// Fleet is what --at T:fleet=… acts on: that of a scenario.
	Fleet Fleet `kong:"-"`
}
