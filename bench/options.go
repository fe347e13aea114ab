package bench

import "time"

// Options are the settings of a run, and the flags of `penstock bench run`. The zero value of a member is its default; what that
// is, is said in its help and written in settings. The spelling is vLLM's where vLLM has the thing.
type Options struct {
	URL string `arg:"" optional:"" name:"url" help:"Base URL of the target, with or without /v1. Default: an edge on port 4000 of this machine, or what answers on the engines' usual ports."`

	BaseURL      string   `name:"base-url" aliases:"target" short:"u" placeholder:"URL" env:"PENSTOCK_BASE_URL,OPENAI_BASE_URL" group:"Target" help:"Base URL, when it is not given as argument."`
	Host         string   `placeholder:"HOST" group:"Target" help:"Host, with --port: another way to say --base-url."`
	Port         int      `placeholder:"N" group:"Target" help:"Port (default with --host: 8000)."`
	Endpoint     string   `placeholder:"PATH" group:"Target" help:"Path instead of the dialect's own, such as /v1/chat/completions."`
	Backend      string   `name:"backend" aliases:"endpoint-type" placeholder:"NAME" group:"Target" help:"Dialect: chat (default), messages, responses, completions, embeddings, transcription, speech; vLLM's names work too."`
	Mix          string   `placeholder:"D:W,…" group:"Target" help:"Several dialects in one run by weight, such as chat:60,messages:30,embeddings@MODEL:10."`
	Model        string   `short:"m" placeholder:"NAME" group:"Target" help:"Model (default: the first one that the target lists)."`
	ServedName   string   `name:"served-model-name" placeholder:"NAME" group:"Target" help:"Its name at the target, where --model says another one, as vLLM's tool has it."`
	APIKey       string   `name:"api-key" placeholder:"KEY" env:"PENSTOCK_API_KEY,OPENAI_API_KEY,ANTHROPIC_API_KEY" group:"Target" help:"Key. Arguments can be seen by other users of the machine, the variables cannot."`
	Header       []string `short:"H" sep:"none" placeholder:"K=V" group:"Target" help:"Further header of every request, as K=V or K: V. Repeat it for more."`
	Insecure     bool     `group:"Target" help:"Do not check the certificate of an https target."`
	NoStream     bool     `name:"no-stream" aliases:"disable-stream" group:"Target" help:"Ask for whole answers instead of streams."`
	CompareURL   string   `name:"compare-url" placeholder:"URL" group:"Target" help:"Measure a second target interleaved with the first, and report the difference with an interval: through the edge and around it."`
	CompareKey   string   `name:"compare-key" placeholder:"KEY" env:"PENSTOCK_COMPARE_KEY" group:"Target" help:"Key of the second target (default: none)."`
	CompareModel string   `name:"compare-model" placeholder:"NAME" group:"Target" help:"Model of the second target (default: as the first)."`

	NumPrompts     Count         `name:"num-prompts" aliases:"request-count" short:"n" placeholder:"N" group:"Load" help:"Number of requests, of each stage."`
	Duration       Span          `short:"z" placeholder:"D" group:"Load" help:"Time to send requests, of each stage (default: 20s when neither this nor a number is given)."`
	RequestRate    []string      `name:"request-rate" short:"r" placeholder:"R" group:"Load" help:"Open loop: requests per second. A list makes stages. inf: as --max-concurrency allows."`
	Burstiness     float64       `placeholder:"X" group:"Load" help:"Shape of the gamma distribution of gaps: 1 (default) Poisson, below it burstier, above it calmer."`
	Arrival        string        `placeholder:"NAME" group:"Load" help:"poisson (default), gamma or constant gaps."`
	MaxConcurrency []int         `name:"max-concurrency" aliases:"concurrency" short:"c" placeholder:"N" group:"Load" help:"Requests in flight at most; with a rate of inf a closed loop (default then: 8). A list makes stages."`
	RampUpStrategy string        `name:"ramp-up-strategy" placeholder:"NAME" group:"Load" help:"linear or exponential, from --ramp-up-start-rps to --ramp-up-end-rps."`
	RampUpStart    float64       `name:"ramp-up-start-rps" placeholder:"R" group:"Load" help:"Rate at the start of the ramp."`
	RampUpEnd      float64       `name:"ramp-up-end-rps" placeholder:"R" group:"Load" help:"Rate at its end."`
	Ramp           time.Duration `placeholder:"D" group:"Load" help:"Time in which a closed loop reaches its concurrency (default: 0s)."`
	NumWarmups     int           `name:"num-warmups" aliases:"warmup-requests" placeholder:"N" group:"Load" help:"Requests before the run that are not measured."`
	Warmup         time.Duration `placeholder:"D" group:"Load" help:"First part of each stage that is not measured."`
	Cooldown       time.Duration `placeholder:"D" group:"Load" help:"Last part of each stage that is not measured; it keeps the load up while the measured requests end."`
	Profile        string        `placeholder:"NAME" group:"Load" help:"sweep: one by one, as fast as possible, and rates between. search: the highest rate that meets --goodput."`
	SweepSize      int           `name:"sweep-size" placeholder:"N" group:"Load" help:"Stages of a sweep (default: 8), or at most of a search (default: 12)."`
	ProbeRate      float64       `name:"probe-request-rate" placeholder:"R" group:"Load" help:"Requests of one token per second beside the load, past its bounds, with latencies of their own: what a short question feels."`
	RequestTimeout Span          `name:"request-timeout" placeholder:"D" group:"Load" help:"Time for one request (default: 10m)."`
	LeaveShare     float64       `name:"leave-share" placeholder:"X" group:"Load" help:"Share of the clients that leave on purpose, 0 to 1."`
	LeavePhase     string        `name:"leave-phase" placeholder:"P" group:"Load" help:"When they leave: prefill, tokens=N (default: tokens=5) or after=DURATION."`
	At             []string      `sep:"none" placeholder:"T:WHAT" group:"Load" help:"Event at a time of the run: 30s:reload, 60s:kill=PID, 60s:drain=PID, 30s:post=URL or 30s:post=URL BODY. Repeat it for more."`

	DatasetName       string        `name:"dataset-name" placeholder:"NAME" group:"Workload" help:"random (default), prefix_repetition, sharegpt, custom ({\"prompt\":…} a line) or trace ({\"timestamp\",\"input_length\",\"output_length\",\"hash_ids\"} a line, replayed in time)."`
	DatasetPath       string        `name:"dataset-path" placeholder:"FILE" group:"Workload" help:"File of sharegpt, custom or trace."`
	TimeScale         float64       `name:"time-scale" placeholder:"X" group:"Workload" help:"Trace: factor on its times; 2 replays at half the speed (default: 1)."`
	InputLen          string        `name:"random-input-len" aliases:"input-len,isl,prefix-repetition-suffix-len,gsp-question-len" placeholder:"N" group:"Workload" help:"Prompt length in tokens (default: 1024): N, uniform:A-B or lognormal:MEDIAN,SIGMA."`
	OutputLen         string        `name:"random-output-len" aliases:"output-len,osl,prefix-repetition-output-len,sharegpt-output-len,custom-output-len,gsp-output-len" placeholder:"N" group:"Workload" help:"Answer length in tokens (default: 128), likewise."`
	RangeRatio        float64       `name:"random-range-ratio" placeholder:"X" group:"Workload" help:"Makes fixed lengths uniform in [N(1-X), N(1+X)]."`
	PrefixLen         int           `name:"random-prefix-len" aliases:"prefix-repetition-prefix-len,gsp-system-prompt-len" placeholder:"N" group:"Workload" help:"Tokens of a prefix that requests share, before the prompt."`
	NumPrefixes       int           `name:"num-prefixes" aliases:"prefix-repetition-num-prefixes,gsp-num-groups" placeholder:"N" group:"Workload" help:"Different prefixes (default: 1; prefix_repetition: 10)."`
	PrefixShare       float64       `name:"prefix-share" placeholder:"X" group:"Workload" help:"Share of the requests that begin with a shared prefix (default: 1)."`
	NumTurns          int           `name:"num-turns" placeholder:"N" group:"Workload" help:"Turns of each conversation, which carry the real replies (default: 1)."`
	TurnDelay         time.Duration `name:"turn-delay" placeholder:"D" group:"Workload" help:"Time between an answer and the next turn."`
	Tools             int           `placeholder:"N" group:"Workload" help:"Tools that each request offers; calls are answered in the next turn."`
	Images            int           `placeholder:"N" group:"Workload" help:"Images in each first turn."`
	ImageSize         string        `name:"image-size" placeholder:"WxH" group:"Workload" help:"Their size in pixels (default: 512x512)."`
	AudioSeconds      float64       `name:"audio-seconds" placeholder:"S" group:"Workload" help:"Length of the sound to transcribe (default: 5)."`
	AudioFile         string        `name:"audio-file" placeholder:"FILE" group:"Workload" help:"WAV file to transcribe instead of a tone."`
	Voice             string        `placeholder:"NAME" group:"Workload" help:"Voice of speech (default: alloy)."`
	IgnoreEOS         bool          `name:"ignore-eos" group:"Workload" help:"Ask the engine to write on to the wanted length (ignore_eos)."`
	Temperature       *float64      `placeholder:"X" group:"Workload" help:"Sampling temperature (default: not sent)."`
	TopP              *float64      `name:"top-p" placeholder:"X" group:"Workload" help:"top_p (default of this and the next five: not sent)."`
	TopK              *float64      `name:"top-k" placeholder:"N" group:"Workload" help:"top_k."`
	MinP              *float64      `name:"min-p" placeholder:"X" group:"Workload" help:"min_p."`
	FrequencyPenalty  *float64      `name:"frequency-penalty" placeholder:"X" group:"Workload" help:"frequency_penalty."`
	PresencePenalty   *float64      `name:"presence-penalty" placeholder:"X" group:"Workload" help:"presence_penalty."`
	RepetitionPenalty *float64      `name:"repetition-penalty" placeholder:"X" group:"Workload" help:"repetition_penalty."`
	ExtraBody         string        `name:"extra-body" aliases:"extra-request-body" placeholder:"JSON" group:"Workload" help:"Object whose members are added to every body."`
	Seed              uint64        `name:"seed" aliases:"random-seed" placeholder:"N" group:"Workload" help:"Makes the same lengths, arrivals and texts again (default: 0)."`
	FlushCache        bool          `name:"flush-cache" aliases:"reset-kv-cache" group:"Workload" help:"Have the engine empty its prefix cache before the run and between its stages: SGLang, and vLLM in development mode, as target or by --engine-url."`
	AllowCache        bool          `name:"allow-cache" group:"Workload" help:"Put no nonce before the prompts: what an earlier run left in a cache is used and measured."`

	Goodput           []string `placeholder:"M:MS" group:"Result" help:"Objectives, all of which a good request meets: ttft, tpot, itl, e2el in ms; error_rate (a share) holds for a stage."`
	PercentileMetrics string   `name:"percentile-metrics" placeholder:"M,…" group:"Result" help:"Metrics of the printed block and the flat keys (default: ttft,tpot,itl,e2el)."`
	MetricPercentiles string   `name:"metric-percentiles" placeholder:"P,…" group:"Result" help:"Percentiles (default: 50,90,95,99)."`
	SaveResult        bool     `name:"save-result" group:"Result" help:"Write the result as JSON, under vLLM's kind of name."`
	SaveDetailed      bool     `name:"save-detailed" group:"Result" help:"With each request's lengths, times and gaps."`
	AppendResult      bool     `name:"append-result" group:"Result" help:"Append to the file: one object a line."`
	ResultDir         string   `name:"result-dir" placeholder:"DIR" group:"Result" help:"Folder of result files."`
	ResultFilename    string   `name:"result-filename" placeholder:"NAME" group:"Result" help:"Name of the result file."`
	Output            []string `short:"o" sep:"none" placeholder:"FILE" group:"Result" help:"Write the result to FILE, by its ending: .json, .csv (a line for each stage), .jsonl (a line for each request), .html (a page with plots). Repeat it for more."`
	Label             string   `placeholder:"TEXT" group:"Result" help:"Name of the run in the file and its name."`
	Metadata          []string `sep:"none" placeholder:"K=V" group:"Result" help:"Pair for the top level of the file. Repeat it for more."`
	NoProgress        bool     `name:"no-progress" aliases:"disable-tqdm" group:"Result" help:"Print nothing while it runs."`
	Quiet             bool     `short:"q" group:"Result" help:"Print the verdict only."`
	Explain           bool     `group:"Result" help:"Print the formula of every measure with this run's numbers."`

	NoFloor      bool     `name:"no-floor" group:"Checks" help:"Do not measure the client's own floor first (1 s)."`
	ExpectErrors []string `name:"expect-errors" sep:"none" placeholder:"WORDS" group:"Checks" help:"Failures that belong to the test, by words that the report has for them, such as '429 capacity_full', or in_stream@event: within 10 s after an event. They do not make the result not valid; others do. Repeat it for more."`
	ReadyCheck   int      `name:"ready-check-timeout-sec" placeholder:"S" group:"Checks" help:"Time to wait for the target to answer (default: 0)."`
	Admin        string   `placeholder:"URL" env:"PENSTOCK_ADMIN" group:"Checks" help:"Admin listener of the edge: its metrics are sampled, and --at T:reload asks it."`
	AdminToken   string   `name:"admin-token" placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" group:"Checks" help:"Its token, where it has one."`
	// Elsewhere is a flag of another tool on the command line, put here by Arguments to be refused.
	Elsewhere string `hidden:""`
	// fleet is what --at T:fleet=… acts on: that of a scenario.
	fleet *fleet

	Engine []string `name:"engine-url" placeholder:"[NAME=]URL" group:"Checks" help:"Engine behind the target, whose /metrics are sampled, and where clients that left are looked for (default: the target itself)."`
}
