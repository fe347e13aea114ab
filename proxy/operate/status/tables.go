package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/proxy/fleet"
	"penstock/proxy/telemetry/observe"
)

// Table shows one kind of object in rows and columns. Rows that need an operator come first.
type Table struct {
	Name    string
	Total   int // number of rows, including rows that are not shown
	Columns []Column
	Rows    []Row
}

// Column is one column of a table.
type Column struct {
	Title  string
	Width  int  // in terminal cells; the text may be wider
	Number bool // whether the column contains numbers, which are aligned right and never truncated
	Spare  int  // if the terminal is too narrow, columns with a higher value are dropped first; 0 means never
}

// Row is one row of a table.
type Row struct {
	ID    string // stays the same while the state changes
	Level string // ok, degraded, out or none; sets the colour, which only repeats the row's text
	Cells []string
	Why   string
	Arms  []string
	More  []string
	Idle  bool
}

// Tables returns the state as tables.
func (s *Status) Tables() []Table {
	all := []Table{
		{Name: "Models", Columns: modelColumns, Rows: tableRows(s.ModelRows(), modelRow)},
		{Name: "Upstreams", Columns: upstreamColumns, Rows: tableRows(s.UpstreamRows(), upstreamRow)},
		{Name: "Calls", Columns: callColumns, Rows: tableRows(pointersTo(s.Calls), callRow)},
		{Name: "Keys", Columns: keyColumns, Rows: tableRows(s.KeyRows(), keyRow)},
		{
			Name: "Errors", Columns: reasonColumns,
			Rows: tableRows(append(pointersTo(s.Failures), pointersTo(s.Refusals)...), reasonRow),
		},
		{Name: "Events", Columns: eventColumns, Rows: tableRows(pointersTo(s.Events), eventRow)},
	}
	if s.Fleet != nil {
		all = append(all, edgesTable(s))
	}
	for i := range all {
		t := &all[i]
		t.Total = len(t.Rows)
		if e := s.Excerpts[strings.ToLower(t.Name)]; e != nil {
			t.Total = e.Total
		}
	}
	return all
}

func tableRows[T any](all []*T, row func(*T) Row) (out []Row) {
	for _, v := range all {
		out = append(out, row(v))
	}
	return out
}

func pointersTo[T any](all []T) (out []*T) {
	for i := range all {
		out = append(out, &all[i])
	}
	return out
}

func formatFraction(n, of int) string {
	if of <= 0 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d/%d", n, of)
}

func shareCell(n, all int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%d (%d%%)", n, percentOf(n, all))
}

func latestSpeed(h *observe.History) string {
	return formatRate(valueAt(h.TokensPerSecond, len(h.TokensPerSecond)-1))
}

// cachedShareText formats the cached share of prompt tokens. The expected share follows in
// parentheses.
func cachedShareText(p observe.PromptCacheCounts) string {
	if p.Prompt == 0 {
		return "–"
	}
	return fmt.Sprintf("%d%% (%d%%)", sharePercent(p.CachedShare()), sharePercent(p.ExpectedShare()))
}

var modelColumns = []Column{
	{"MODEL", 14, false, 0},
	{"STATE", 9, false, 0},
	{"SLOTS", 9, true, 0},
	{"LOAD", gaugeWidth + 2, true, 9},
	{"QUEUE", 7, true, 2},
	{"CALLS/min", 10, true, 7},
	{"FAILED", 9, true, 1},
	{"FULL", 9, true, 3},
	{"OVER LIMIT", 10, true, 4},
	{"TTFT p50", 9, true, 8},
	{"TTFT p95", 9, true, 5},
	{"tok/s", 6, true, 6},
	{"CACHED 5m", 11, true, 10},
}

// Text describes the arm's share and its number of calls.
func (a *Arm) Text() string {
	text := fmt.Sprintf("arm %s: %.3g%% of the calls, %d ended there", a.Name, 100*a.Share, a.Calls)
	if a.Missed > 0 {
		text += fmt.Sprintf(", %d of its own elsewhere", a.Missed)
	}
	return text
}

func modelRow(m *Model) Row {
	r := Row{ID: m.ID, Idle: m.Idle(), Why: strings.Join(m.Troubles, ", and ")}
	state := m.State
	switch m.State {
	case ModelOut:
		state, r.Level, r.Why = "OUT", LevelOut, "no engine serves it"
	case ModelFallback:
		r.Level, r.Why = LevelDegraded, m.fallbackText()
	case ModelFailing:
		r.Level = LevelFailing
	case ModelDegraded:
		r.Level = LevelDegraded
	}
	if r.Why != "" {
		r.Why += sinceSuffix(m.TroubleSeconds)
	}
	if text := downTargetsText(m.Targets); text != "" {
		r.More = append(r.More, text)
		if r.Level == "" {
			r.Level = LevelDegraded
		}
	}
	load := formatFraction(m.Slots.Active, m.Slots.Total)
	queue := "–"
	if m.Queue != nil {
		queue = formatFraction(m.Queue.Waiting, m.Queue.Depth)
	}
	n := &m.History.Minute
	r.Cells = []string{
		m.ID, state, load,
		formatSlotGauge(m.Slots.Active, m.Slots.Total),
		queue, strconv.Itoa(n.Calls),
		shareCell(n.Failed, n.Calls), shareCell(n.Full, n.Calls), shareCell(n.Limited, n.Calls),
		formatMillis(n.TTFTP50Millis), formatMillis(n.TTFTP95Millis), latestSpeed(&m.History),
		cachedShareText(m.History.Prompts),
	}
	for i := range m.Arms {
		r.Arms = append(r.Arms, m.Arms[i].Text())
	}
	if text := m.Retirement(); text != "" {
		r.More = append(r.More, text)
	}
	if pools := modelPools(*m); len(pools) > 1 {
		var all []string
		for _, p := range pools {
			all = append(all, fmt.Sprintf("%s %d/%d", p.Name, p.Active, p.Total))
		}
		r.More = append(r.More, "pools: "+strings.Join(all, ", "))
	}
	var takes []string
	for i := range m.Targets {
		t := &m.Targets[i]
		if t.Eligible {
			takes = append(takes, t.Upstream)
			continue
		}
		r.More = append(r.More, t.Upstream+": "+t.Why)
	}
	if len(takes) > 0 {
		r.More = append(r.More, "served by "+strings.Join(takes, ", "))
	}
	return r
}

const gaugeWidth = 10

func formatSlotGauge(active, total int) string {
	full := 0
	if total > 0 {
		full = min(gaugeWidth, (active*gaugeWidth+total-1)/total)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat("·", gaugeWidth-full) + "]"
}

var upstreamColumns = []Column{
	{"UPSTREAM", 14, false, 0},
	{"STATE", 16, false, 0},
	{"SLOTS", 7, true, 1},
	{"LIMIT BY", 9, false, 5},
	{"CALLS 5m", 9, true, 7},
	{"FAILED 5m", 9, true, 2},
	{"TTFT p95", 9, true, 4},
	{"tok/s", 6, true, 3},
	{"DOWN 1h", 12, true, 6},
	{"ENGINE", 12, false, 8},
	{"CACHED 5m", 11, true, 9},
}

func upstreamRow(u *Upstream) Row {
	r := Row{ID: u.Label, Idle: u.Idle(), Why: u.troubleText()}
	badge := u.Badge()
	state := badge.Word
	if badge.Lasts {
		state += " " + FormatDuration(secondsDuration(u.Since()))
	}
	switch {
	case badge.Class == "down":
		r.Level = LevelOut
	case badge.Class == "warn", u.Mode != "ready":
		r.Level = LevelDegraded
	}
	switch {
	case u.Mode != "ready" && u.ModeWho != "":
		r.Why = strings.TrimSpace(r.Why + " by " + u.ModeWho)
	case badge.Word == "busy" && r.Why == "":
		r.Why = BusyMeaning
	case badge.Word == "failing":
		r.Why = u.failureShareText("")
	}
	active, limit, elsewhere := 0, 0, 0
	for _, p := range upstreamPools(u) {
		active, limit, elsewhere = active+p.Active, limit+p.Total, elsewhere+p.Elsewhere
	}
	if elsewhere > 0 {
		r.More = append(r.More, fmt.Sprintf("of its %d calls %d are of other edges", active, elsewhere))
	}
	downs := "–"
	if u.Hour.Downs > 0 {
		downs = fmt.Sprintf("%d× %s", u.Hour.Downs, FormatDuration(secondsDuration(u.Hour.DownSeconds)))
	}
	r.Cells = []string{
		u.Label, state, formatFraction(active, limit), u.Limits.Source,
		strconv.Itoa(u.History.Ended + u.History.Retried), strconv.Itoa(u.History.Failed + u.History.Retried), formatMillis(u.History.TTFTP95Millis),
		latestSpeed(&u.History), downs, u.EngineTitle, cachedShareText(u.History.Prompts),
	}
	where := u.URL
	if u.Origin != "" {
		where += ", " + u.Origin
	}
	r.More = append(r.More, where)
	if n := u.Report; n != nil && u.ReportFresh {
		r.More = append(r.More, fmt.Sprintf("the engine says: %d running, %d in its queue", n.Running, n.Waiting))
	}
	return r
}

var callColumns = []Column{
	{"CALL", 12, false, 0},
	{"MODEL", 14, false, 0},
	{"UPSTREAM", 12, false, 3},
	{"STATE", 14, false, 0},
	{"KEY", 12, false, 5},
	{"PROMPT", 7, true, 4},
	{"OUT", 6, true, 4},
	{"TTFT", 8, true, 6},
	{"TIME", 8, true, 2},
	{"CLASS", 8, false, 7},
}

func callRow(c *Call) Row {
	r := Row{ID: c.ID, Idle: !c.Running() && c.State == CallDone}
	state, prompt, out := c.State, strconv.Itoa(c.Cached+c.Fresh), strconv.Itoa(c.Generated)
	switch {
	case c.Running():
		r.Level, prompt, out = LevelOK, "…", "…"
	case c.State == CallFailed:
		state, r.Level = failedState(c), LevelOut
	case c.State == CallRefused:
		state, r.Level = strconv.Itoa(c.Status), LevelDegraded
	case c.State == CallDone:
		state = strconv.Itoa(c.Status)
	}
	r.Cells = []string{
		shortID(c.ID), c.Model, c.Upstream, state, c.Key, prompt, out, formatMillis(c.TTFT),
		formatMillis(c.Duration), c.Class,
	}
	r.More = []string{c.ID + " · " + c.Dialect + " · began " + c.Start.Format(time.TimeOnly)}
	for i := range c.Failed {
		a := &c.Failed[i]
		r.More = append(r.More, fmt.Sprintf("%s failed after %s: %s", a.Upstream, formatMillis(a.Took), a.Why()))
	}
	if c.Choice != "" {
		r.More = append(r.More, fmt.Sprintf("%s was picked because %s", c.Upstream, choiceMeaning(c.Choice)))
	}
	if c.Code != "" {
		r.Why = c.Code
	}
	return r
}

// failedState returns the status of a failed call. A broken stream has the status 200, so
// failedState returns the error code instead.
func failedState(c *Call) string {
	if c.Status >= 400 || c.Code == "" {
		return strconv.Itoa(c.Status)
	}
	return "✕ " + strings.TrimPrefix(c.Code, "upstream_")
}

var keyColumns = []Column{
	{"KEY", 14, false, 0},
	{"IN FLIGHT", 9, true, 0},
	{"REQ/min", 10, true, 2},
	{"TOK/min", 14, true, 3},
	{"BUDGET", 6, true, 1},
	{"CALLS TODAY", 11, true, 5},
	{"TOK TODAY", 9, true, 4},
	{"REFUSED 5m", 10, true, 0},
	{"MOSTLY BY", 20, false, 6},
}

func keyRow(k *Key) Row {
	r := Row{ID: k.ID, Idle: k.Idle()}
	if k.IsGroup { // to distinguish the group from a key with the same id
		r.ID = "group " + k.ID
	}
	if k.Group != "" {
		r.More = append(r.More, "in the group "+k.Group)
	}
	why := func(text string) {
		if r.Level = LevelDegraded; r.Why != "" {
			r.Why += ", and "
		}
		r.Why += text
	}
	if k.Refused > 0 {
		why(fmt.Sprintf("refused %s in 5 min%s, mostly by %s", timesText(k.Refused), k.refusalCounts(), k.Why))
	}
	if k.Badge == badgeOverLimit || k.Badge == badgeEndsSoon {
		for _, n := range k.Notes {
			if strings.HasPrefix(n, noteOverLimit) || strings.HasPrefix(n, noteEndsIn) {
				why(n)
			}
		}
	}
	budget := "–"
	if share := k.maxBudgetShare(); share >= 0 {
		budget = fmt.Sprintf("%.0f%%", math.Floor(100*share))
	}
	for _, b := range k.Budgets {
		if b.Share < 1 {
			r.More = append(r.More, b.Text())
			continue
		}
		why(b.Text())
	}
	if !k.Ends.IsZero() {
		word := "ends"
		if k.Badge == badgeExpired {
			word = "expired"
		}
		r.More = append(r.More, word+" on "+k.Ends.UTC().Format(time.RFC3339))
	}
	r.Cells = []string{
		r.ID, formatFraction(k.InFlight, k.Concurrency), limitUseCell(k.Requests), limitUseCell(k.Tokens), budget,
		strconv.Itoa(int(k.Today.Calls)), strconv.Itoa(int(k.Today.Tokens)), strconv.Itoa(k.Refused), k.Why,
	}
	return r
}

func (k *Key) refusalCounts() string {
	var parts []string
	if k.OverLimit > 0 {
		parts = append(parts, fmt.Sprintf("%d over its limits", k.OverLimit))
	}
	if k.Full > 0 {
		parts = append(parts, fmt.Sprintf("%d found it full", k.Full))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func limitUseCell(u *LimitUse) string {
	if u == nil {
		return "–"
	}
	return formatFraction(int(u.Used), int(u.Limit))
}

var reasonColumns = []Column{
	{"REASON", 18, false, 0},
	{"KEY", 12, false, 1},
	{"MODEL", 16, false, 2},
	{"UPSTREAM", 12, false, 3},
	{"LAST min", 8, true, 0},
	{"5 min", 6, true, 0},
}

func reasonRow(c *Reason) Row {
	r := Row{ID: c.ID(), Idle: c.Minute == 0}
	if c.Failed {
		r.Level = LevelOut
	}
	r.Cells = []string{c.Code, c.Key, c.Model, c.Upstream, strconv.Itoa(c.Minute), strconv.Itoa(c.Count)}
	if c.Limit != "" {
		r.More = append(r.More, "over limit: "+c.Limit)
	}
	if c.Cause != "" {
		r.More = append(r.More, "cause "+withStatus(c.Cause, c.Engine)+": "+causeMeaning(c.Cause))
	}
	r.More = append(r.More, fmt.Sprintf("status %d, last at %s", c.Status, c.Last.Format(time.TimeOnly)))
	return r
}

var eventColumns = []Column{{"TIME", 8, false, 0}, {"WHO", 14, false, 0}, {"WHAT", 48, false, 0}}

func eventRow(e *Event) Row {
	return Row{
		ID: e.At.Format(time.RFC3339Nano) + e.Who + e.Kind, Level: e.Level,
		Cells: []string{e.At.Format(time.TimeOnly), e.Who, e.Text},
		More:  []string{strings.TrimSpace(e.Who + " " + e.Text)},
	}
}

var edgeColumns = []Column{
	{"EDGE", 14, false, 0},
	{"SELF", 4, false, 0},
	{"STATE", 9, false, 0},
	{"IN FLIGHT", 10, true, 1},
	{"SINCE START", 11, true, 3},
	{"CONFIGURATION", 17, false, 2},
	{"UP", 10, true, 4},
	{"BUILD", 14, false, 5},
}

func edgesTable(s *Status) Table {
	t := Table{Name: "Edges", Columns: edgeColumns}
	for i := range s.Fleet.Members {
		m := &s.Fleet.Members[i]
		self, up := "", s.Now.Sub(time.Unix(m.Started, 0))
		if m.Self {
			self = "this"
		}
		r := Row{ID: m.ID, Why: m.Verdict, More: []string{m.Version + " · configuration " + memberConfig(m)}}
		if r.Level = m.Level; m.Level == LevelOK {
			r.Level = ""
		}
		r.Cells = []string{
			m.Name, self, cmp.Or(m.Level, "–"), strconv.Itoa(m.InFlight), strconv.Itoa(int(m.Calls)),
			memberConfig(m),
			FormatDuration(up),
			m.Version,
		}
		t.Rows = append(t.Rows, r)
	}
	slices.SortStableFunc(t.Rows, func(a, b Row) int { return cmp.Compare(levelRank(a.Level), levelRank(b.Level)) })
	return t
}

// memberConfig describes the configuration of an edge by version and digest. The version alone is
// not enough, because each edge counts reloads separately.
func memberConfig(m *fleet.Member) string {
	if m.Generation == 0 {
		return m.Config
	}
	return fmt.Sprintf("#%d %s", m.Generation, m.Config)
}

// levelRank returns the rank of a level. Levels that need an operator come first.
func levelRank(level string) int {
	switch level {
	case LevelOut:
		return rankOutOfService
	case LevelDegraded:
		return rankProblem
	case LevelDraining:
		return rankHold
	}
	return rankBusy
}
