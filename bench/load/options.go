package load

import "time"

// Options are the settings of a run. They are also the flags of `penstock bench run`. A zero field
// means the default, which the help text describes and Validate fills in. Options that vLLM's tool
// also has use its names.
type Options struct {
	URL string `arg:"" optional:"" name:"url" env:"PENSTOCK_BASE_URL,OPENAI_BASE_URL" help:"Base URL of the target, with or without /v1. Default: an edge on port 4000 of this machine, or what answers on the engines' usual ports."`

	Mix          string `placeholder:"D:W,…" group:"Target" help:"Dialect: chat (default), messages, responses, completions, embeddings, transcription or speech; several by weight: chat:60,embeddings@MODEL:10."`
	Model        string `short:"m" values:"models" placeholder:"NAME" group:"Target" help:"Model (default: the first that is listed)."`
	APIKey       string `name:"api-key" placeholder:"KEY" env:"PENSTOCK_API_KEY,OPENAI_API_KEY,ANTHROPIC_API_KEY" group:"Target" help:"Key; other users of the machine see arguments."`
	NoStream     bool   `name:"no-stream" group:"Target" help:"Ask for whole answers instead of streams."`
	CompareURL   string `name:"compare-url" placeholder:"URL" group:"Target" help:"Second target, measured interleaved: through the edge and around it. Its key: $PENSTOCK_COMPARE_KEY."`
	CompareModel string `name:"compare-model" values:"models" placeholder:"NAME" group:"Target" help:"Its model (default: as the first)."`

	NumPrompts     RequestCount     `name:"num-prompts" short:"n" placeholder:"N" group:"Load" help:"Number of requests, of each stage."`
	Duration       PositiveDuration `short:"z" placeholder:"D" group:"Load" help:"Time to send requests, of each stage (default: 20s if no number is given)."`
	RequestRate    []string         `name:"request-rate" short:"r" placeholder:"R" group:"Load" help:"Open loop: requests per second, which come at random (Poisson). A list makes stages."`
	MaxConcurrency []int            `name:"max-concurrency" short:"c" placeholder:"N" group:"Load" help:"Requests in flight at most; without a rate a closed loop (default: 8). A list makes stages."`
	Ramp           string           `placeholder:"R-R" group:"Load" help:"From one rate to another over the run, such as 4-24."`
	Profile        string           `placeholder:"NAME" group:"Load" help:"sweep: one by one, ever more at once until it is no faster, and rates between. search: the highest rate that meets --goodput."`
	RequestTimeout PositiveDuration `name:"request-timeout" placeholder:"D" group:"Load" help:"Time for one request (default: 10m)."`

	DatasetName string     `name:"dataset-name" placeholder:"NAME" group:"Prompts" help:"random (default), prefix_repetition, sharegpt, custom or trace; bench/README.md has their lines."`
	DatasetPath string     `name:"dataset-path" placeholder:"FILE" group:"Prompts" help:"File of sharegpt, custom or trace."`
	TimeScale   TimeFactor `name:"time-scale" placeholder:"X" group:"Prompts" help:"Trace: factor on its times, 0.001 to 1000 (default: 1); 2 is half as fast."`
	InputLen    string     `name:"random-input-len" placeholder:"N" group:"Prompts" help:"Prompt tokens (default: 1024): N, uniform:A-B or lognormal:MEDIAN,SIGMA."`
	OutputLen   string     `name:"random-output-len" placeholder:"N" group:"Prompts" help:"Answer tokens (default: 128), likewise."`
	PrefixLen   int        `name:"random-prefix-len" placeholder:"N" group:"Prompts" help:"Tokens of a prefix that requests share."`
	NumPrefixes int        `name:"num-prefixes" placeholder:"N" group:"Prompts" help:"Different prefixes (default: 1; prefix_repetition: 10)."`
	Seed        uint64     `placeholder:"N" group:"Prompts" help:"Seed of lengths, arrivals and texts (default: 0)."`
	IgnoreEOS   bool       `name:"ignore-eos" group:"Prompts" help:"Ask the engine to fill the requested length."`

	NumTurns  int           `name:"num-turns" placeholder:"N" group:"Conversations and contents" help:"Turns of each conversation, with the real replies (default: 1)."`
	TurnDelay time.Duration `name:"turn-delay" placeholder:"D" group:"Conversations and contents" help:"Time between an answer and the next turn."`
	Tools     int           `placeholder:"N" group:"Conversations and contents" help:"Tools that each request offers."`
	Images    int           `placeholder:"N" group:"Conversations and contents" help:"Images of 512x512 in each first turn."`

	LeaveShare   string   `name:"leave-share" placeholder:"X[@WHEN]" group:"Clients that leave, failures, metrics" help:"Share of the clients that leave on purpose, such as 0.1 or 0.1@prefill: in the prefill, after tokens=N (default: 5) or after=DURATION."`
	ExpectErrors []string `name:"expect-errors" sep:"none" placeholder:"WORDS" group:"Clients that leave, failures, metrics" help:"Failures that belong to the test, in the report's words, such as '429 capacity_full', or in_stream@event: within 10 s after a scenario's event. Others make the result not valid. Repeatable."`
	Admin        string   `placeholder:"URL" env:"PENSTOCK_ADMIN" group:"Clients that leave, failures, metrics" help:"Admin listener of the edge: its metrics are sampled. Its token: $PENSTOCK_ADMIN_TOKEN."`
	Engine       []string `name:"engine-url" placeholder:"[NAME=]URL" group:"Clients that leave, failures, metrics" help:"Engine behind the target, whose metrics are sampled and show clients that left."`

	Goodput []string `placeholder:"M:MS" group:"Result and checks" help:"Objectives of a good request: ttft, tpot, itl, e2el in ms; of a stage: error_rate, a share."`
	Output  []string `short:"o" sep:"none" placeholder:"FILE" group:"Result and checks" help:"File, by its ending: .json, .jsonl (a line for each request), .html (a page with plots). Repeatable."`
	Quiet   bool     `short:"q" group:"Result and checks" help:"Print the verdict only."`

	// BaseURL is the target if URL is empty.
	BaseURL string `kong:"-"`
	// Header contains additional request headers, as "Name: value".
	Header []string `kong:"-"`
	// Insecure disables the verification of the target's certificate.
	Insecure bool `kong:"-"`
	// Constant sends the requests in an open loop at equal intervals.
	Constant bool `kong:"-"`
	// Warmup is the time at the start of each stage that is not measured.
	Warmup time.Duration `kong:"-"`
	// AllowCache omits the nonce at the start of prompts, so that prompts can hit caches from
	// earlier runs.
	AllowCache bool `kong:"-"`
	// NoFloor skips the measurement of the client's floor, which takes a second.
	NoFloor bool `kong:"-"`
	// AdminToken and CompareKey come from PENSTOCK_ADMIN_TOKEN and PENSTOCK_COMPARE_KEY.
	AdminToken string `kong:"-"`
	CompareKey string `kong:"-"`
	// ReadyCheck is how long to wait for the target to respond.
	ReadyCheck time.Duration `kong:"-"`
	// MaxStages is the number of stages in a sweep (default 8), or the maximum number in a search
	// (default 12). All stages of a sweep that increase the number of clients count as one stage.
	MaxStages int `kong:"-"`
	// Spread is the time over which the clients of a closed loop start.
	Spread time.Duration `kong:"-"`
	// Events act on Fleet, the fleet of a scenario. Each event consists of a time and an action for
	// Fleet.PerformAction, such as "10s:crash gpu-b".
	Events []string `kong:"-"`
	Fleet  Fleet    `kong:"-"`
}
