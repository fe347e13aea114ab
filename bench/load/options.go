package load

import "time"

// Options are the settings of a run, and the flags of `penstock bench run`. The zero value of a
// member is its default; what that is, is said in its help and written in settings. The spelling is
// vLLM's where vLLM has the thing.
type Options struct {
	URL string `arg:"" optional:"" name:"url" help:"Base URL of the target, with or without /v1. Default: an edge on port 4000 of this machine, or what answers on the engines' usual ports."`

	BaseURL      string   `name:"base-url" short:"u" placeholder:"URL" env:"PENSTOCK_BASE_URL,OPENAI_BASE_URL" group:"Target" help:"Base URL, when it is not the argument."`
	Backend      string   `placeholder:"NAME" group:"Target" help:"Dialect: chat (default), messages, responses, completions, embeddings, transcription, speech; vLLM's names work too."`
	Mix          string   `placeholder:"D:W,…" group:"Target" help:"Several dialects by weight: chat:60,embeddings@MODEL:10."`
	Model        string   `short:"m" values:"models" placeholder:"NAME" group:"Target" help:"Model (default: the first that is listed)."`
	APIKey       string   `name:"api-key" placeholder:"KEY" env:"PENSTOCK_API_KEY,OPENAI_API_KEY,ANTHROPIC_API_KEY" group:"Target" help:"Key; other users of the machine see arguments."`
	Header       []string `short:"H" sep:"none" placeholder:"K=V" group:"Target" help:"Further header of requests. Repeatable."`
	Insecure     bool     `group:"Target" help:"Do not check the certificate of the target."`
	NoStream     bool     `name:"no-stream" group:"Target" help:"Ask for whole answers instead of streams."`
	CompareURL   string   `name:"compare-url" placeholder:"URL" group:"Target" help:"Second target, measured interleaved: through the edge and around it. Its key: $PENSTOCK_COMPARE_KEY."`
	CompareModel string   `name:"compare-model" values:"models" placeholder:"NAME" group:"Target" help:"Its model (default: as the first)."`

	NumPrompts     Count         `name:"num-prompts" short:"n" placeholder:"N" group:"Load" help:"Number of requests, of each stage."`
	Duration       Span          `short:"z" placeholder:"D" group:"Load" help:"Time to send requests, of each stage (default: 20s without a number of them)."`
	RequestRate    []string      `name:"request-rate" short:"r" placeholder:"R" group:"Load" help:"Open loop: requests per second. A list makes stages."`
	Burstiness     float64       `placeholder:"X" group:"Load" help:"Gaps: 1 (default) Poisson, below it burstier, above it calmer, inf constant."`
	MaxConcurrency []int         `name:"max-concurrency" short:"c" placeholder:"N" group:"Load" help:"Requests in flight at most; without a rate a closed loop (default: 8). A list makes stages."`
	Ramp           string        `placeholder:"R-R" group:"Load" help:"From one rate to another over the run, such as 4-24."`
	Warmup         time.Duration `placeholder:"D" group:"Load" help:"First part of each stage that is not measured."`
	IgnoreRetry    bool          `name:"ignore-retry-after" group:"Load" help:"Closed loop: send again at once after a refusal. Without it each client waits as Retry-After says."`
	Profile        string        `placeholder:"NAME" group:"Load" help:"sweep: one by one, ever more at once until it is no faster, and rates between. search: the highest rate that meets --goodput."`
	RequestTimeout Span          `name:"request-timeout" placeholder:"D" group:"Load" help:"Time for one request (default: 10m)."`

	DatasetName string `name:"dataset-name" placeholder:"NAME" group:"Prompts" help:"random (default), prefix_repetition, sharegpt, custom or trace; bench/README.md has their lines."`
	DatasetPath string `name:"dataset-path" placeholder:"FILE" group:"Prompts" help:"File of sharegpt, custom or trace."`
	TimeScale   Factor `name:"time-scale" placeholder:"X" group:"Prompts" help:"Trace: factor on its times, 0.001 to 1000 (default: 1); 2 is half as fast."`
	InputLen    string `name:"random-input-len" placeholder:"N" group:"Prompts" help:"Prompt tokens (default: 1024): N, uniform:A-B or lognormal:MEDIAN,SIGMA."`
	OutputLen   string `name:"random-output-len" placeholder:"N" group:"Prompts" help:"Answer tokens (default: 128), likewise."`
	PrefixLen   int    `name:"random-prefix-len" placeholder:"N" group:"Prompts" help:"Tokens of a prefix that requests share."`
	NumPrefixes int    `name:"num-prefixes" placeholder:"N" group:"Prompts" help:"Different prefixes (default: 1; prefix_repetition: 10)."`
	Seed        uint64 `placeholder:"N" group:"Prompts" help:"Lengths, arrivals and texts (default: 0)."`
	AllowCache  bool   `name:"allow-cache" group:"Prompts" help:"No nonce before prompts: caches of earlier runs count."`
	IgnoreEOS   bool   `name:"ignore-eos" group:"Prompts" help:"Ask the engine to write to the wanted length."`

	NumTurns  int           `name:"num-turns" placeholder:"N" group:"Conversations and contents" help:"Turns of each conversation, with the real replies (default: 1)."`
	TurnDelay time.Duration `name:"turn-delay" placeholder:"D" group:"Conversations and contents" help:"Time between an answer and the next turn."`
	Tools     int           `placeholder:"N" group:"Conversations and contents" help:"Tools that each request offers."`
	Images    int           `placeholder:"N" group:"Conversations and contents" help:"Images of 512x512 in each first turn."`
	AudioFile string        `name:"audio-file" placeholder:"FILE" group:"Conversations and contents" help:"WAV file to transcribe (default: a tone of 5 s)."`
	ExtraBody string        `name:"extra-body" placeholder:"JSON" group:"Conversations and contents" help:"Members of every body, such as {\"temperature\":0}."`

	At           []string `sep:"none" placeholder:"T:WHAT" group:"Events and what sees them" help:"Event at a time of the run: 30s:reload, 60s:kill=PID, 60s:drain=PID, 30s:post=URL or 30s:post=URL BODY. Repeatable."`
	LeaveShare   string   `name:"leave-share" placeholder:"X[@WHEN]" group:"Events and what sees them" help:"Share of the clients that leave on purpose, such as 0.1 or 0.1@prefill: in the prefill, after tokens=N (default: 5) or after=DURATION."`
	ExpectErrors []string `name:"expect-errors" sep:"none" placeholder:"WORDS" group:"Events and what sees them" help:"Failures that belong to the test, in the report's words, such as '429 capacity_full', or in_stream@event: within 10 s after an event. Others make the result not valid. Repeatable."`
	Admin        string   `placeholder:"URL" env:"PENSTOCK_ADMIN" group:"Events and what sees them" help:"Admin listener of the edge: its metrics are sampled, --at T:reload asks it. Its token: $PENSTOCK_ADMIN_TOKEN."`
	Engine       []string `name:"engine-url" placeholder:"[NAME=]URL" group:"Events and what sees them" help:"Engine behind the target, whose metrics are sampled and show clients that left."`

	Goodput  []string `placeholder:"M:MS" group:"Result and checks" help:"Objectives of a good request: ttft, tpot, itl, e2el in ms; of a stage: error_rate, a share."`
	Output   []string `short:"o" sep:"none" placeholder:"FILE" group:"Result and checks" help:"File, by its ending: .json, .jsonl (a line for each request), .html (a page with plots). Repeatable."`
	Metadata []string `sep:"none" placeholder:"K=V" group:"Result and checks" help:"Pair for the JSON. Repeatable."`
	Quiet    bool     `short:"q" group:"Result and checks" help:"Print the verdict only."`
	NoFloor  bool     `name:"no-floor" group:"Result and checks" help:"Do not measure the client's own floor first (1 s)."`

	// AdminToken and CompareKey are PENSTOCK_ADMIN_TOKEN and PENSTOCK_COMPARE_KEY.
	AdminToken string `kong:"-"`
	CompareKey string `kong:"-"`
	// ReadyCheck is how long to wait for the target to answer.
	ReadyCheck time.Duration `kong:"-"`
	// MaxStages is how many stages a sweep has (8), those of ever more clients as one, and a search at most (12).
	MaxStages int `kong:"-"`
	// Spread is the time in which the clients of a closed loop begin, one after the other.
	Spread time.Duration `kong:"-"`
	// Fleet is what --at T:fleet=… acts on: that of a scenario.
	Fleet Fleet `kong:"-"`
}
