package load

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/load/workload"
	"penstock/bench/result"
)

// settings contains Options that have been checked, with defaults filled in.
type settings struct {
	Options
	work       workload.Spec
	stages     []stageSpec
	closed     bool
	rampFrom   float64 // the two rates of --ramp; 0 if there is no ramp
	rampTo     float64
	objectives []result.Objective
	events     []scheduledEvent
	expect     []expectation
	leaveText  string
}

// stageSpec defines the load of a stage. If the rate is 0, the load is a closed loop.
type stageSpec struct {
	rate        float64
	concurrency int // 0 means no limit
	count       int
	duration    time.Duration
	ramp        bool
}

// ObjectivePattern matches a value of --goodput.
var ObjectivePattern = regexp.MustCompile(`^([a-z0-9_]+):([0-9.]+)$`)

// Validate checks the options and fills in the defaults. All errors are *exit.Error with the code
// exit.Usage.
func (o Options) Validate() (*settings, error) {
	s := &settings{Options: o}
	s.BaseURL = cmp.Or(s.URL, s.BaseURL)
	for _, step := range []func() error{s.parseMix, s.checkOptionBounds, s.buildStages, s.buildWorkload, s.parseResultOptions, s.parseTimeline} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.work.Seed, s.work.AllowCache, s.work.NoStream, s.work.Pairs = s.Seed, s.AllowCache, s.NoStream, s.CompareURL != ""
	s.work.Dataset, s.work.Path, s.work.TimeScale = s.DatasetName, s.DatasetPath, float64(s.TimeScale)
	s.work.PrefixLen, s.work.NumPrefixes, s.work.NumTurns = s.PrefixLen, s.NumPrefixes, s.NumTurns
	s.work.Tools, s.work.Images = s.Tools, s.Images
	s.work.OwnOut, s.work.IgnoreEOS = s.OutputLen != "", s.IgnoreEOS
	return s, nil
}

func (s *settings) parseMix() error {
	total := 0.0
	for _, part := range strings.Split(cmp.Or(s.Mix, "chat"), ",") {
		name, weight, _ := strings.Cut(part, ":")
		name, model, _ := strings.Cut(name, "@")
		w, err := strconv.ParseFloat(cmp.Or(weight, "1"), 64)
		d := client.FindDialect(strings.TrimSpace(name))
		if d == nil || err != nil || w <= 0 || math.IsInf(w, 0) {
			return exit.Usagef("--mix %q: want DIALECT[@MODEL][:WEIGHT], dialects %s", part,
				strings.Join(client.DialectNames(), ", "))
		}
		s.work.Mix = append(s.work.Mix, workload.DialectShare{D: d, Model: model, Weight: w})
		total += w
	}
	for i := range s.work.Mix {
		s.work.Mix[i].Weight /= total
	}
	return nil
}

// checkOptionBounds checks each option separately.
func (s *settings) checkOptionBounds() error {
	for _, rule := range []struct {
		broken bool
		text   string
		value  any
	}{
		{
			s.NumPrompts < 0 || s.Duration < 0 || s.Spread < 0 || s.TurnDelay < 0,
			"numbers and times of the load cannot be below 0", nil,
		},
		{s.Profile != "" && s.Profile != "sweep" && s.Profile != "search", "--profile %q: want sweep or search", s.Profile},
		{
			s.Profile == "search" && len(s.Goodput) == 0,
			"--profile search looks for the highest rate that meets objectives: give them by --goodput, such as --goodput ttft:500,itl:50", nil,
		},
		{
			slices.ContainsFunc(s.MaxConcurrency, func(c int) bool { return c < 1 }), "--max-concurrency %v: want 1 or more",
			s.MaxConcurrency,
		},
		{
			s.PrefixLen < 0 || s.NumPrefixes < 0 || s.NumTurns < 0 || s.Tools < 0 || s.Images < 0,
			"numbers of the workload cannot be below 0", nil,
		},
		{
			s.TimeScale != 0 && !(s.TimeScale >= minTimeFactor && s.TimeScale <= maxTimeFactor),
			"--time-scale %v: " + errTimeFactor.Error(), s.TimeScale,
		},
		{
			s.TimeScale != 0 && s.DatasetName != "trace",
			"--time-scale stretches the times of a trace: add --dataset-name trace and --dataset-path FILE", nil,
		},
	} {
		if rule.broken && rule.value != nil {
			return exit.Usagef(rule.text, rule.value)
		} else if rule.broken {
			return exit.Usagef("%s", rule.text)
		}
	}
	s.RequestTimeout = cmp.Or(s.RequestTimeout, PositiveDuration(10*time.Minute))
	return nil
}

func (s *settings) buildStages() error {
	rates := []float64{math.Inf(1)}
	for i, text := range s.RequestRate {
		r, err := strconv.ParseFloat(text, 64)
		if err != nil || r <= 0 || math.IsNaN(r) {
			return exit.Usagef("--request-rate %q: want a number above 0, or inf", text)
		}
		rates = append(rates[:i], r)
	}
	limits := s.MaxConcurrency
	if len(limits) == 0 {
		limits = []int{0}
	}
	if len(rates) > 1 && len(limits) > 1 && len(rates) != len(limits) {
		return exit.Usagef("--request-rate and --max-concurrency are lists of different lengths")
	}
	if s.Ramp != "" {
		from, to, ok := strings.Cut(s.Ramp, "-")
		var err1, err2 error
		s.rampFrom, err1 = strconv.ParseFloat(from, 64)
		s.rampTo, err2 = strconv.ParseFloat(to, 64)
		switch {
		case !ok || err1 != nil || err2 != nil || !(s.rampFrom >= 0 && s.rampTo > 0 && s.rampTo <= math.MaxInt32):
			return exit.Usagef("--ramp %q: want two rates, such as 4-24", s.Ramp)
		case len(s.RequestRate) > 0:
			return exit.Usagef("a ramp says its own rates: leave out --request-rate")
		}
	}
	trace := s.DatasetName == "trace"
	if trace && (s.Profile != "" || s.Ramp != "" || len(s.RequestRate) > 0) {
		return exit.Usagef("a trace says when requests come: leave out --request-rate, --profile and --ramp")
	}
	if s.NumPrompts == 0 && s.Duration == 0 && !trace {
		s.Duration = PositiveDuration(20 * time.Second)
	}
	for i := range max(len(rates), len(limits)) {
		st := stageSpec{
			rate: rates[min(i, len(rates)-1)], concurrency: limits[min(i, len(limits)-1)],
			count: int(s.NumPrompts), duration: time.Duration(s.Duration), ramp: s.Ramp != "",
		}
		if math.IsInf(st.rate, 1) && !st.ramp && !trace && (st.concurrency > 0 || st.count == 0) {
			st.rate, st.concurrency = 0, cmp.Or(st.concurrency, 8)
			s.closed = true
		}
		s.stages = append(s.stages, st)
	}
	return nil
}

func (s *settings) buildWorkload() (err error) {
	if s.work.In, err = workload.ParseLength(cmp.Or(s.InputLen, "1024")); err != nil {
		return err
	}
	if s.work.Out, err = workload.ParseLength(cmp.Or(s.OutputLen, "128")); err != nil {
		return err
	}
	s.DatasetName = cmp.Or(s.DatasetName, "random")
	switch made := s.DatasetName == "random" || s.DatasetName == "prefix_repetition"; {
	case !made && !slices.Contains([]string{"trace", "sharegpt", "custom"}, s.DatasetName):
		return exit.Usagef("--dataset-name %q: want random, prefix_repetition, sharegpt, custom or trace", s.DatasetName)
	case made && s.DatasetPath != "":
		return exit.Usagef("--dataset-path needs --dataset-name sharegpt, custom or trace")
	case !made && s.DatasetPath == "":
		return exit.Usagef("--dataset-name %s needs --dataset-path FILE", s.DatasetName)
	case s.DatasetName == "prefix_repetition":
		s.NumPrefixes, s.PrefixLen = cmp.Or(s.NumPrefixes, 10), cmp.Or(s.PrefixLen, 256)
	}
	s.NumPrefixes, s.NumTurns, s.TimeScale = cmp.Or(s.NumPrefixes, 1), cmp.Or(s.NumTurns, 1), cmp.Or(s.TimeScale, 1)
	return nil
}

// objectiveNames are the measures that --goodput accepts.
var objectiveNames = []string{result.TTFT, result.TPOT, result.ITL, result.E2EL, "error_rate"}

// ParseObjectives parses the values of --goodput.
func ParseObjectives(goodput []string) (out []result.Objective, err error) {
	for _, g := range goodput {
		m := ObjectivePattern.FindStringSubmatch(g)
		if m == nil || !slices.Contains(objectiveNames, m[1]) {
			return nil, exit.Usagef("--goodput %q: want MEASURE:LIMIT, such as ttft:200, of %s", g,
				strings.Join(objectiveNames, ", "))
		}
		limit, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, exit.Usagef("--goodput %q: %q is not a number", g, m[2])
		}
		out = append(out, result.Objective{Measure: m[1], Limit: limit})
	}
	return out, nil
}

func (s *settings) parseResultOptions() (err error) {
	if s.objectives, err = ParseObjectives(s.Goodput); err != nil {
		return err
	}
	for _, name := range s.Output {
		if i := strings.LastIndexByte(name, '.'); i < 0 || !slices.Contains([]string{"json", "jsonl", "html"}, name[i+1:]) {
			return exit.Usagef("--output %q: want a name that ends in .json, .jsonl or .html", name)
		}
	}
	return nil
}

func (s *settings) parseDepartures() (err error) {
	share, when, _ := strings.Cut(s.LeaveShare, "@")
	s.work.LeaveShare, err = strconv.ParseFloat(cmp.Or(share, "0"), 64)
	if err != nil || !(s.work.LeaveShare >= 0 && s.work.LeaveShare <= 1) {
		return exit.Usagef("--leave-share %q: want 0 to 1, and perhaps @prefill, @tokens=N or @after=DURATION", s.LeaveShare)
	}
	s.leaveText = cmp.Or(when, "tokens=5")
	kind, arg, _ := strings.Cut(s.leaveText, "=")
	leave := &s.work.Leave
	switch kind {
	case "prefill":
		return nil
	case "tokens":
		leave.Tokens, err = strconv.Atoi(arg)
	case "after":
		leave.After, err = time.ParseDuration(arg)
	}
	if err != nil || leave.Tokens <= 0 && leave.After <= 0 {
		return exit.Usagef("--leave-share %q: want behind the @ prefill, tokens=N or after=DURATION, above 0", s.LeaveShare)
	}
	return nil
}

func (s *settings) parseTimeline() error {
	if err := s.parseDepartures(); err != nil {
		return err
	}
	for _, text := range s.Events {
		e, err := parseEvent(text)
		if err != nil {
			return err
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
