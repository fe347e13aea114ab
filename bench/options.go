package bench

import (
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

	NumPrompts     int           `name:"num-prompts" aliases:"request-count" short:"n" placeholder:"N" group:"Load" help:"Number of requests, of each stage."`
	Duration       time.Duration `short:"z" placeholder:"D" group:"Load" help:"Time to send requests, of each stage (default: 20s when neither this nor a number is given)."`
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
	RequestTimeout time.Duration `name:"request-timeout" placeholder:"D" group:"Load" help:"Time for one request (default: 10m)."`
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
	TopP              *float64      `name:"top-p" placeholder:"X" group:"Workload" help:"Likewise top_p, and so on for the next five."`
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

	Engine []string `name:"engine-url" placeholder:"URL" group:"Checks" help:"Engine behind the target, whose /metrics are sampled, and where clients that left are looked for (default: the target itself)."`
}

// settings are Options after all checks.
type settings struct {
	Options
	mix        []share
	stages     []stageSpec
	closed     bool
	in, out    length
	extra      []byte
	form       []formField // extra as fields of a form
	objectives []Objective
	metrics    []string
	percents   []float64
	events     []eventSpec
	expect     []expectation
	probe      *dialect // of --probe-request-rate
	leave      *departure
	leaveText  string
	metadata   map[string]string
	imageW     int
	imageH     int
}

// share is a dialect's part of the mix.
type share struct {
	d      *dialect
	model  string // empty: the run's model
	weight float64
}

// stageSpec is the load of a stage. A rate of 0 is a closed loop.
type stageSpec struct {
	rate        float64
	concurrency int // 0: no bound
	count       int
	duration    time.Duration
	ramp        bool
}

// objective matches a value of --goodput.
var objective = regexp.MustCompile(`^([a-z0-9_]+):([0-9.]+)$`)

// settle checks the options and fills in the defaults. Errors are *ExitError with ExitUsage.
func (o Options) settle() (*settings, error) {
	s := &settings{Options: o, metadata: map[string]string{}}
	for _, step := range []func() error{s.arguments, s.dialects, s.load, s.lengths, s.body, s.result, s.timeline} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// arguments settles the target.
func (s *settings) arguments() error {
	if s.Elsewhere != "" {
		return usageError("--%s: %s", s.Elsewhere, insteadOf(s.Elsewhere))
	}
	if s.URL != "" {
		s.BaseURL = s.URL
	}
	s.Model = orText(s.ServedName, s.Model)
	if s.BaseURL == "" && (s.Host != "" || s.Port != 0) {
		s.BaseURL = "http://" + orText(s.Host, "127.0.0.1") + ":" + strconv.Itoa(or(s.Port, 8000))
	}
	return nil
}

func or[T int | float64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

func orText(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}

func (s *settings) dialects() error {
	if s.Mix == "" {
		d := findDialect(orText(s.Backend, "chat"))
		if d == nil {
			return usageError("unknown dialect %q: want one of %s", s.Backend, strings.Join(dialectNames(), ", "))
		}
		s.mix = []share{{d: d, weight: 1}}
		return nil
	}
	if s.Backend != "" || s.Endpoint != "" {
		return usageError("--mix says which dialects are spoken: leave out --backend and --endpoint")
	}
	total := 0.0
	for _, part := range strings.Split(s.Mix, ",") {
		name, weight, _ := strings.Cut(part, ":")
		name, model, _ := strings.Cut(name, "@")
		w, err := strconv.ParseFloat(orText(weight, "1"), 64)
		d := findDialect(strings.TrimSpace(name))
		if d == nil || err != nil || w <= 0 || math.IsInf(w, 0) {
			return usageError("--mix %q: want DIALECT[@MODEL]:WEIGHT, dialects %s", part, strings.Join(dialectNames(), ", "))
		}
		s.mix = append(s.mix, share{d: d, model: model, weight: w})
		total += w
	}
	for i := range s.mix {
		s.mix[i].weight /= total
	}
	return nil
}

// load makes the stages.
func (s *settings) load() error {
	var rates []float64
	for _, text := range s.RequestRate {
		r, err := strconv.ParseFloat(text, 64)
		if err != nil || r <= 0 || math.IsNaN(r) {
			return usageError("--request-rate %q: want a number above 0, or inf", text)
		}
		rates = append(rates, r)
	}
	for _, c := range s.MaxConcurrency {
		if c < 1 {
			return usageError("--max-concurrency %d: want 1 or more", c)
		}
	}
	switch {
	case s.NumPrompts < 0 || s.Duration < 0 || s.Warmup < 0 || s.Cooldown < 0 || s.NumWarmups < 0 || s.Ramp < 0 || s.TurnDelay < 0:
		return usageError("numbers and times of the load cannot be below 0")
	case s.LeaveShare < 0 || s.LeaveShare > 1:
		return usageError("--leave-share %v: want 0 to 1", s.LeaveShare)
	case len(rates) > 1 && len(s.MaxConcurrency) > 1 && len(rates) != len(s.MaxConcurrency):
		return usageError("--request-rate and --max-concurrency are lists of different lengths")
	case s.Profile != "" && s.Profile != "sweep" && s.Profile != "search":
		return usageError("--profile %q: want sweep or search", s.Profile)
	case s.Profile == "search" && len(s.Goodput) == 0:
		return usageError("--profile search looks for the highest rate that meets objectives: give them by --goodput, such as --goodput ttft:500,itl:50")
	case s.ProbeRate < 0 || s.ProbeRate > 1000:
		return usageError("--probe-request-rate %v: want 0 to 1000 requests per second", s.ProbeRate)
	case s.SweepSize < 0 || s.SweepSize == 1 || s.SweepSize == 2 && s.Profile == "sweep":
		return usageError("--sweep-size %d: want 3 or more", s.SweepSize)
	}
	if i := slices.IndexFunc(s.mix, func(m share) bool { return m.d.tokens }); i >= 0 {
		s.probe = s.mix[i].d
	} else if s.ProbeRate > 0 {
		return usageError("--probe-request-rate sends requests of one token, and no dialect of this run generates tokens")
	}
	if err := s.shape(rates); err != nil {
		return err
	}
	if len(rates) == 0 {
		rates = []float64{math.Inf(1)}
	}
	limits := s.MaxConcurrency
	if len(limits) == 0 {
		limits = []int{0}
	}
	trace := slices.Contains([]string{"trace", "timed_trace", "mooncake"}, s.DatasetName)
	if trace && (s.Profile != "" || s.RampUpStrategy != "" || len(s.RequestRate) > 0) {
		return usageError("a trace says when requests come: leave out --request-rate, --profile and ramps")
	}
	if s.NumPrompts == 0 && s.Duration == 0 && !trace {
		s.Duration = 20 * time.Second
	}
	for i := range max(len(rates), len(limits)) {
		st := stageSpec{rate: rates[min(i, len(rates)-1)], concurrency: limits[min(i, len(limits)-1)], count: s.NumPrompts, duration: s.Duration, ramp: s.RampUpStrategy != ""}
		if math.IsInf(st.rate, 1) && !st.ramp && !trace && (st.concurrency > 0 || st.count == 0) {
			st.rate, st.concurrency = 0, or(st.concurrency, 8)
			s.closed = true
		}
		s.stages = append(s.stages, st)
	}
	s.RequestTimeout = or(s.RequestTimeout, 10*time.Minute)
	return nil
}

// shape settles how arrivals are spread.
func (s *settings) shape(rates []float64) error {
	switch s.Arrival {
	case "", "poisson", "gamma":
		s.Burstiness = or(s.Burstiness, 1)
	case "constant":
		s.Burstiness = math.Inf(1)
	default:
		return usageError("--arrival %q: want poisson, gamma or constant", s.Arrival)
	}
	if s.Burstiness <= 0 || math.IsNaN(s.Burstiness) {
		return usageError("--burstiness %v: want a number above 0", s.Burstiness)
	}
	switch s.RampUpStrategy {
	case "":
		return nil
	case "linear", "exponential":
	default:
		return usageError("--ramp-up-strategy %q: want linear or exponential", s.RampUpStrategy)
	}
	switch {
	case s.RampUpStart <= 0 && s.RampUpStrategy == "exponential" || s.RampUpStart < 0 || s.RampUpEnd <= 0:
		return usageError("a ramp needs --ramp-up-start-rps and --ramp-up-end-rps, above 0")
	case len(rates) > 0:
		return usageError("a ramp says its own rates: leave out --request-rate")
	}
	return nil
}

func (s *settings) lengths() (err error) {
	if s.RangeRatio < 0 || s.RangeRatio >= 1 {
		return usageError("--random-range-ratio %v: want 0 or more and below 1", s.RangeRatio)
	}
	if s.in, err = parseLength(orText(s.InputLen, "1024")); err != nil {
		return err
	}
	if s.out, err = parseLength(orText(s.OutputLen, "128")); err != nil {
		return err
	}
	for _, l := range []*length{&s.in, &s.out} {
		if l.kind == "fixed" {
			*l = spread(int(l.a), s.RangeRatio)
		}
	}
	switch s.DatasetName {
	case "", "random":
		s.DatasetName = "random"
		if s.DatasetPath != "" {
			return usageError("--dataset-path needs --dataset-name sharegpt, custom or trace")
		}
	case "prefix_repetition", "generated-shared-prefix":
		s.DatasetName = "prefix_repetition"
		s.NumPrefixes, s.PrefixLen = or(s.NumPrefixes, 10), or(s.PrefixLen, 256)
	case "timed_trace", "mooncake", "trace":
		s.DatasetName = "trace"
	case "sharegpt", "custom":
	default:
		return usageError("--dataset-name %q: want random, prefix_repetition, sharegpt, custom or trace", s.DatasetName)
	}
	if slices.Contains([]string{"trace", "sharegpt", "custom"}, s.DatasetName) && s.DatasetPath == "" {
		return usageError("--dataset-name %s needs --dataset-path FILE", s.DatasetName)
	}
	if s.PrefixLen < 0 || s.NumPrefixes < 0 || s.PrefixShare < 0 || s.PrefixShare > 1 || s.NumTurns < 0 || s.Tools < 0 || s.Images < 0 || s.TimeScale < 0 || s.AudioSeconds < 0 {
		return usageError("numbers of the workload cannot be below 0, and --prefix-share not above 1")
	}
	s.NumPrefixes, s.PrefixShare, s.NumTurns, s.TimeScale, s.AudioSeconds = or(s.NumPrefixes, 1), or(s.PrefixShare, 1), or(s.NumTurns, 1), or(s.TimeScale, 1), or(s.AudioSeconds, 5)
	s.Voice = orText(s.Voice, "alloy")
	w, h, ok := strings.Cut(orText(s.ImageSize, "512x512"), "x")
	s.imageW, _ = strconv.Atoi(w)
	s.imageH, _ = strconv.Atoi(h)
	if !ok || s.imageW < 1 || s.imageH < 1 || s.imageW > 8192 || s.imageH > 8192 {
		return usageError("--image-size %q: want WIDTHxHEIGHT, at most 8192x8192", s.ImageSize)
	}
	return nil
}

// body renders the members that every body gets, and the same as fields of a form.
func (s *settings) body() error {
	if s.IgnoreEOS {
		s.extra = append(s.extra, `,"ignore_eos":true`...)
	}
	for _, x := range []struct {
		name  string
		value *float64
	}{
		{"temperature", s.Temperature},
		{"top_p", s.TopP},
		{"top_k", s.TopK},
		{"min_p", s.MinP},
		{"frequency_penalty", s.FrequencyPenalty},
		{"presence_penalty", s.PresencePenalty},
		{"repetition_penalty", s.RepetitionPenalty},
	} {
		if x.value != nil {
			value := strconv.FormatFloat(*x.value, 'g', -1, 64)
			s.extra = append(append(append(append(s.extra, `,"`...), x.name...), `":`...), value...)
			s.form = append(s.form, formField{x.name, value})
		}
	}
	if s.ExtraBody == "" {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s.ExtraBody), &members); err != nil || members == nil {
		return usageError("--extra-body: want a JSON object")
	}
	for _, own := range []string{"model", "messages", "prompt", "input", "stream", "stream_options", "max_tokens", "max_output_tokens"} {
		if members[own] != nil {
			return usageError("--extra-body: %s is set by the workload", own)
		}
	}
	text := strings.TrimSpace(s.ExtraBody)
	if len(members) > 0 {
		s.extra = append(append(s.extra, ','), text[1:len(text)-1]...)
	}
	if !slices.ContainsFunc(s.mix, func(m share) bool { return m.d.mime != "" }) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := string(members[name])
		if value[0] == '"' && json.Unmarshal(members[name], &value) != nil || strings.ContainsAny(name+value, "\r\n\"") {
			return usageError("--extra-body: %s cannot be a field of a form, as a transcription has them", name)
		}
		s.form = append(s.form, formField{name, value})
	}
	return nil
}

// objectiveNames are what --goodput can be about.
var objectiveNames = []string{TTFT, TPOT, ITL, E2EL, "error_rate"}

func (s *settings) result() error {
	for _, g := range s.Goodput {
		m := objective.FindStringSubmatch(g)
		if m == nil || !slices.Contains(objectiveNames, m[1]) {
			return usageError("--goodput %q: want MEASURE:LIMIT, such as ttft:200, of %s", g, strings.Join(objectiveNames, ", "))
		}
		limit, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return usageError("--goodput %q: %q is not a number", g, m[2])
		}
		s.objectives = append(s.objectives, Objective{Measure: m[1], Limit: limit})
	}
	for _, m := range strings.Split(orText(s.PercentileMetrics, "ttft,tpot,itl,e2el"), ",") {
		if alias := map[string]string{"client_queue_time": ScheduleDelay, "e2el_including_client_queue": E2ELFromSchedule}[m]; alias != "" {
			s.metrics = append(s.metrics, alias)
			continue
		}
		if !slices.Contains(Measures(), m) {
			return usageError("--percentile-metrics %q: want of %s", m, strings.Join(Measures(), ", "))
		}
		s.metrics = append(s.metrics, m)
	}
	for _, p := range strings.Split(orText(s.MetricPercentiles, "50,90,95,99"), ",") {
		v, err := strconv.ParseFloat(p, 64)
		if err != nil || v < 0 || v > 100 {
			return usageError("--metric-percentiles %q: want numbers from 0 to 100", p)
		}
		s.percents = append(s.percents, v)
	}
	for _, kv := range s.Metadata {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" || fixedMembers[k] || statistic.MatchString(k) {
			return usageError("--metadata %q: want K=V, K none of the result's own keys", kv)
		}
		s.metadata[k] = v
	}
	for _, name := range s.Output {
		if i := strings.LastIndexByte(name, '.'); i < 0 || !slices.Contains([]string{"json", "csv", "jsonl", "html"}, name[i+1:]) {
			return usageError("--output %q: want a name that ends in .json, .csv, .jsonl or .html", name)
		}
	}
	return nil
}

// timeline settles departures and events.
func (s *settings) timeline() error {
	s.leaveText = orText(s.LeavePhase, "tokens=5")
	kind, arg, _ := strings.Cut(s.leaveText, "=")
	var err error
	s.leave = &departure{}
	switch kind {
	case "prefill":
	case "tokens":
		s.leave.tokens, err = strconv.Atoi(arg)
	case "after":
		s.leave.after, err = time.ParseDuration(arg)
	default:
		return usageError("--leave-phase %q: want prefill, tokens=N or after=DURATION", s.LeavePhase)
	}
	if err != nil || kind != "prefill" && s.leave.tokens <= 0 && s.leave.after <= 0 {
		return usageError("--leave-phase %q: want a number or time above 0", s.LeavePhase)
	}
	for _, text := range s.At {
		e, err := parseEvent(text)
		if err != nil {
			return err
		}
		if e.verb == "reload" && s.Admin == "" {
			return usageError("--at %s: say by --admin where the edge listens for it", text)
		}
		s.events = append(s.events, e)
	}
	for _, text := range s.ExpectErrors {
		e, err := parseExpectation(text)
		if err != nil {
			return err
		}
		s.expect = append(s.expect, e)
	}
	return nil
}
