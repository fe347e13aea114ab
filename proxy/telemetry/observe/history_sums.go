package observe

// History describes the last five minutes in steps of StepSeconds, oldest first. Unknown values are
// -1.
type History struct {
	StepSeconds     float64   `json:"step_seconds"`
	TokensPerSecond []float64 `json:"tokens_per_second"`
	TTFTMillis      []float64 `json:"ttft_p50_ms"`
	TTFTP50Millis   float64   `json:"ttft_p50_ms_5m"`
	TTFTP95Millis   float64   `json:"ttft_p95_ms_5m"`
	Ended           int       `json:"calls_5m"` // calls that ended at an engine, with any outcome
	Failed          int       `json:"failed_5m"`
	// Failed attempts that were followed by another attempt.
	Retried int               `json:"retried_5m"`
	Prompts PromptCacheCounts `json:"prompts_5m"`
	Minute  Minute            `json:"minute"`
}

// Minute summarizes the calls of the last minute. Unknown values are -1.
type Minute struct {
	Calls int `json:"calls"` // ended calls, including refused calls
	// Calls that failed at an upstream, or because there was no upstream.
	Failed  int     `json:"failed"`
	Retried int     `json:"retried"`
	Full    int     `json:"full"`
	Limited int     `json:"limited"`
	In      float64 `json:"prompt_tokens"`
	Out     float64 `json:"generated_tokens"`

	Streams       int     `json:"streams"` // streams whose first token has arrived
	TTFTP50Millis float64 `json:"ttft_p50_ms"`
	TTFTP95Millis float64 `json:"ttft_p95_ms"`
	Queued        int     `json:"queued"`
	QueueP95      float64 `json:"queue_p95_ms"`
}

// addRefusals adds calls that were refused before a request was sent to an engine.
func (m *Minute) addRefusals(c *FailureReasonCount) {
	m.Calls += c.Minute
	switch {
	case c.Outcome.Failed():
		m.Failed += c.Minute
	case c.Outcome == OutcomeLimited && c.Limit == "":
		m.Full += c.Minute
	case c.Outcome == OutcomeLimited:
		m.Limited += c.Minute
	}
}

type stepSum struct {
	promptTokens, outputTokens float64
	prompts                    PromptCacheCounts
	ok, failed, full, other    int
	retried                    int
	ttft                       durationBucketCounts // empty if no call has ended
}

func (s *stepSum) endedCalls() int { return s.ok + s.failed + s.full + s.other }

type historySums struct {
	steps      [historySlotCount]stepSum // the current step is last
	minuteTTFT durationBucketCounts      // TTFTs in the last minute
	minuteWait durationBucketCounts      // waits for a slot in the last minute
}

func (h *history) addTo(last int64, to ...*historySums) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.slots {
		s := &h.slots[i]
		age := last - s.step
		if age < 0 || age >= historySlotCount {
			continue
		}
		for _, t := range to {
			t.addSlot(s, age)
		}
	}
}

func (t *historySums) addSlot(s *historySlot, age int64) {
	step := &t.steps[historySlotCount-1-age]
	step.promptTokens, step.outputTokens = step.promptTokens+s.promptTokens, step.outputTokens+s.outputTokens
	step.prompts.merge(&s.prompts)
	step.ok, step.failed = step.ok+int(s.ok), step.failed+int(s.failed)
	step.full, step.other = step.full+int(s.full), step.other+int(s.other)
	step.retried += int(s.retried)
	if s.ok+s.failed+s.full+s.other == 0 {
		return // no call has ended, so no time was recorded
	}
	for class, n := range s.ttft {
		step.ttft[class] += int(n)
	}
	if age >= slotsPerMinute {
		return
	}
	for class := range s.ttft {
		t.minuteTTFT[class] += int(s.ttft[class])
		t.minuteWait[class] += int(s.wait[class])
	}
}

func (t *historySums) merge(o *historySums) {
	for i := range t.steps {
		step, more := &t.steps[i], &o.steps[i]
		step.promptTokens, step.outputTokens = step.promptTokens+more.promptTokens, step.outputTokens+more.outputTokens
		step.prompts.merge(&more.prompts)
		step.ok, step.failed = step.ok+more.ok, step.failed+more.failed
		step.full, step.other = step.full+more.full, step.other+more.other
		step.retried += more.retried
		if more.endedCalls() > 0 {
			step.ttft.merge(&more.ttft)
		}
	}
	t.minuteTTFT.merge(&o.minuteTTFT)
	t.minuteWait.merge(&o.minuteWait)
}

// fullHistory returns the sums for display. present is how many seconds of the last step have
// passed.
func (t *historySums) fullHistory(present float64) History {
	out := t.historyWithoutSteps()
	out.TokensPerSecond, out.TTFTMillis = make([]float64, 0, historySlotCount), make([]float64, 0, historySlotCount)
	for i := range t.steps {
		step, width := &t.steps[i], historyStep.Seconds()
		if i == historySlotCount-1 {
			width = present
		}
		ttft := -1.0
		if step.endedCalls() > 0 {
			ttft = quantileMillis(&step.ttft, 0.5)
		}
		out.TokensPerSecond = append(out.TokensPerSecond, max(0, step.outputTokens)/width)
		out.TTFTMillis = append(out.TTFTMillis, ttft)
	}
	return out
}

// historyWithoutSteps is like fullHistory, but omits the values of individual steps.
func (t *historySums) historyWithoutSteps() History {
	var all durationBucketCounts
	out := History{StepSeconds: historyStep.Seconds(), TokensPerSecond: []float64{}, TTFTMillis: []float64{}}
	m := &out.Minute
	for i := range t.steps {
		step := &t.steps[i]
		ended := step.endedCalls()
		if ended > 0 {
			all.merge(&step.ttft)
		}
		out.Ended += ended
		out.Failed += step.failed
		out.Retried += step.retried
		out.Prompts.merge(&step.prompts)
		if i >= historySlotCount-int(slotsPerMinute) {
			m.Calls += ended
			m.Failed += step.failed
			m.Retried += step.retried
			m.Full += step.full
			m.In += step.promptTokens
			m.Out += max(0, step.outputTokens)
		}
	}
	out.TTFTP50Millis, out.TTFTP95Millis = quantileMillis(&all, 0.5), quantileMillis(&all, 0.95)
	m.Streams, m.Queued = t.minuteTTFT.totalCount(), t.minuteWait.totalCount()
	m.TTFTP50Millis, m.TTFTP95Millis = quantileMillis(&t.minuteTTFT, 0.5), quantileMillis(&t.minuteTTFT, 0.95)
	m.QueueP95 = quantileMillis(&t.minuteWait, 0.95)
	return out
}
