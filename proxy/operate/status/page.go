package status

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"penstock/proxy/fleet"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS template.CSS
	//go:embed page.js
	pageJS template.JS
)

// The policy allows exactly the page's style and script, by their hashes. Only these two constants
// have the types template.CSS and template.JS, so html/template escapes all other values.
var (
	pageTemplate          = template.Must(template.New("page").Funcs(templateFuncs).Parse(pageHTML))
	contentSecurityPolicy = "default-src 'none'; style-src '" + cspHash(string(pageCSS)) + "'; script-src '" + cspHash(string(pageJS)) + "'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

func cspHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// ContentSecurityPolicy is the page's Content-Security-Policy.
func ContentSecurityPolicy() string { return contentSecurityPolicy }

// Sections lists the element ids of the sections that are updated while a page is open.
var Sections = []string{
	"verdict", "numbers", "edges", "refusals", "events", "models", "upstreams", "keys", "calls", "configuration",
}

// Page renders the whole page.
func (s *Status) Page() ([]byte, error) {
	return renderTemplate("page", struct {
		*Status
		CSS template.CSS
		JS  template.JS
	}{s, pageCSS, pageJS})
}

// CallPage renders the page about one call, or returns nil if the call is no longer recorded.
func (s *Status) CallPage(id string) ([]byte, error) {
	i := slices.IndexFunc(s.Calls, func(c Call) bool { return c.ID == id })
	if i < 0 {
		return nil, nil
	}
	return s.renderCallPage("call", &s.Calls[i])
}

// UnknownCallPage renders the page about a call that is no longer recorded.
func (s *Status) UnknownCallPage(id string) ([]byte, error) {
	return s.renderCallPage("forgotten", &Call{ID: id})
}

func (s *Status) renderCallPage(name string, c *Call) ([]byte, error) {
	return renderTemplate(name, struct {
		Now   time.Time
		Fleet *fleet.State
		Call  *Call
		CSS   template.CSS
	}{s.Now, s.Fleet, c, pageCSS})
}

// AddEndedCall adds an ended call that may be too old for the table.
func (s *Status) AddEndedCall(e *observe.EndedCall) { s.Calls = append(s.Calls, endedCall(e)) }

// RecordedCallsText says which calls are recorded.
const RecordedCallsText = "The newest 256 calls are kept, and of the last hour a thousand each that failed, were slow or were refused."

// Section renders the contents of one section.
func (s *Status) Section(id string) (string, error) {
	text, err := renderTemplate(id, s)
	return string(text), err
}

func renderTemplate(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := pageTemplate.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}

var templateFuncs = template.FuncMap{
	"seconds": func(v float64) string { return FormatDuration(secondsDuration(v)) },
	"since":   func(at, now time.Time) string { return FormatDuration(now.Sub(at)) },
	"clock":   func(at time.Time) string { return at.Format("15:04:05") },
	"stamp":   func(at time.Time) string { return at.Format(time.RFC3339) },
	"ms":      formatMillis,

	"unixstamp": func(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) },

	"speed":    formatSpeed,
	"percent":  func(share float64) string { return strconv.Itoa(sharePercent(share)) + " %" },
	"bar":      newPoolBar,
	"spark":    newSparkline,
	"last":     func(v []float64) float64 { return valueAt(v, len(v)-1) },
	"rate":     formatRate,
	"deny":     func(a map[string]uint64, words ...string) (n uint64) { return sumCounts(a, words) },
	"short":    shortID,
	"pools":    func(m *Model) []namedPool { return modelPools(*m) },
	"ownpools": upstreamPools,
	"amounts":  titledAmounts,
	"plural":   pluralize,
	"add":      func(a, b int) int { return a + b },
	"int":      func(n int64) int { return int(n) },
	"pool":     poolLabel,
	"active":   slotsInUse,

	"engineQueue": engineQueue,

	"fullest":   (*Key).maxBudgetShare,
	"pairs":     certificateNotes,
	"perSecond": func(perMinute float64) float64 { return perMinute / time.Minute.Seconds() },
	"many":      func(rows int) bool { return rows > maxUnfoldedRows },
	"crowd":     func(rows int) bool { return rows > maxNarrowRows },
	"part":      func(n, all int) string { return strconv.Itoa(percentOf(n, all)) + " %" },
	"takers":    eligibleTargetsText,
	"awaited":   func(d Domain) bool { return d.NotAfter.IsZero() },
	"missing":   ineligibleTargets,
	"list":      joinNames,
	"refuses":   func(r upstreams.RefusedFeature) string { return refusalShareText(&r) },
	"sign":      Verdict.levelSign,
	"title":     Verdict.tabTitle,
	"down":      downTargetsText,
	"why":       (*Attempt).Why,
	"kept":      func() string { return RecordedCallsText },
	"meaning":   causeMeaning,
	"because":   choiceMeaning,
	"succeeded": func(c *Call) bool { return c.State == CallDone && c.Upstream != "" },

	"excerpt":       (*ListExcerpt).String,
	"folded":        func(n int, what, state string) foldedRows { return foldedRows{n, what, state} },
	"idleModels":    func(s *Status) int { return idleRowCount(s.ModelRows()) },
	"idleUpstreams": func(s *Status) int { return idleRowCount(s.UpstreamRows()) },
	"idleKeys":      func(s *Status) int { return idleRowCount(s.KeyRows()) },
}

type idleReporter interface{ Idle() bool }

type foldedRows struct {
	N           int
	What, State string
}

const maxNarrowRows = 60

const maxUnfoldedRows = 12

func idleRowCount[R idleReporter](rows []R) (n int) {
	if len(rows) <= maxUnfoldedRows {
		return 0
	}
	for _, r := range rows {
		if r.Idle() {
			n++
		}
	}
	return n
}

func eligibleTargetsText(all []Target) string {
	return fmt.Sprintf("%d of %s", len(all)-len(ineligibleTargets(all)), pluralize(len(all), "target"))
}

func ineligibleTargets(all []Target) (out []Target) {
	for _, t := range all {
		if !t.Eligible {
			out = append(out, t)
		}
	}
	return out
}

func valueAt(v []float64, i int) float64 {
	if i < 0 {
		return -1
	}
	return v[i]
}

func sumCounts(a map[string]uint64, words []string) (n uint64) {
	for _, w := range words {
		n += a[w]
	}
	return n
}

// formatMillis formats a duration in milliseconds, or returns a dash if the duration is unknown.
func formatMillis(v float64) string {
	switch {
	case v <= 0:
		return "–"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64) + " ms"
	case v < 1000:
		return strconv.Itoa(int(math.Round(v))) + " ms"
	case v < 60_000:
		return strconv.FormatFloat(v/1000, 'f', 2, 64) + " s"
	}
	return FormatDuration(time.Duration(v * float64(time.Millisecond)))
}

func formatSpeed(v *float64) string {
	if v == nil {
		return "–"
	}
	return formatRate(*v)
}

func formatRate(v float64) string {
	switch {
	case v < 0:
		return "–"
	case v < 10 && v != math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.Itoa(int(math.Round(v)))
}

// shortID truncates a request id. The remaining characters are enough for a reader to distinguish
// ids.
func shortID(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}

const barWidth = 100.0

// poolBar describes the drawing of a pool: the edge's leases, requests from other clients, and free
// slots.
type poolBar struct {
	Own, Others, Total   int
	Elsewhere            int // how many of Own are used by other edges
	OwnWidth, OthersFrom float64
	OthersWidth          float64
	Full                 bool
}

func newPoolBar(p namedPool) poolBar {
	b := poolBar{
		Own: p.Active, Others: p.Others, Total: p.Total, Elsewhere: p.Elsewhere, Full: p.Total > 0 && p.Active >= p.Total,
	}
	if p.Total <= 0 {
		return b
	}
	b.OwnWidth = math.Min(barWidth, barWidth*float64(p.Active)/float64(p.Total))
	b.OthersFrom = b.OwnWidth
	b.OthersWidth = math.Min(barWidth-b.OwnWidth, barWidth*float64(p.Others)/float64(p.Total))
	return b
}

type namedPool struct {
	Name          string
	Active, Total int
	Elsewhere     int // how many of Active are used by the fleet's other edges
	Others        int
	Sources       []string
}

// modelPools returns the pools to show for a model: a single pool if the pools share their slots,
// and otherwise each pool that has slots. The pools of higher tiers follow.
func modelPools(m Model) []namedPool {
	out := poolsWithNames(m.Pools, m.Separate, "shared by all requests", "")
	for i := range m.Tiers {
		t := &m.Tiers[i]
		name := "tier " + strconv.Itoa(t.Tier)
		if t.Serving {
			name += " serves"
		}
		if i > 0 {
			out = append(out, poolsWithNames(t.Pools, t.Separate, name, name+", ")...)
		}
	}
	return out
}

// poolsWithNames returns a tier's pools with their names. If separate is true, it returns all pools,
// with prefix before their names. Otherwise, it returns only the shared pool.
func poolsWithNames(pools map[string]Pool, separate bool, shared, prefix string) (out []namedPool) {
	if !separate {
		p := pools["text"]
		return []namedPool{{shared, p.Active, p.Total, p.Elsewhere, p.Others, p.Sources}}
	}
	for _, name := range []string{"text", "vision", "audio"} {
		if p := pools[name]; p.Total+p.Active > 0 {
			out = append(out, namedPool{prefix + name, p.Active, p.Total, p.Elsewhere, p.Others, p.Sources})
		}
	}
	return out
}

// upstreamPools returns the pools of an upstream. It counts calls from other edges, because they
// also occupy slots.
func upstreamPools(u *Upstream) (out []namedPool) {
	for _, p := range u.Pools {
		active := p.Active + p.Elsewhere
		switch {
		case u.Limits.Shared && p.Pool == "text":
			return []namedPool{{"", active, p.Limit, p.Elsewhere, u.Others, nil}}
		case !u.Limits.Shared && p.Limit+active > 0:
			out = append(out, namedPool{p.Pool, active, p.Limit, p.Elsewhere, 0, nil})
		}
	}
	return out
}

// engineQueue returns the length of the engine's queue, or -1 if there is no fresh report.
func engineQueue(u *Upstream) int {
	if u.Report == nil || !u.ReportFresh {
		return -1
	}
	return u.Report.Waiting
}

func slotsInUse(u *Upstream) (n int) {
	for _, p := range upstreamPools(u) {
		n += p.Active
	}
	return n
}

type sparkline struct {
	Line, Area string
	Peak       float64
	Some       bool
}

const (
	sparkWidth  = 120.0
	sparkHeight = 28.0
)

// newSparkline draws a line through the values. A value of -1 leaves a gap in the line.
func newSparkline(values []float64) sparkline {
	s := sparkline{}
	for _, v := range values {
		s.Peak = math.Max(s.Peak, v)
	}
	if s.Peak <= 0 {
		return s
	}
	s.Some = true
	var line, area bytes.Buffer
	step := sparkWidth / float64(max(1, len(values)-1))
	drawing, begun := false, 0.0
	coordinate := func(b *bytes.Buffer, op byte, x, y float64) {
		b.WriteByte(op)
		b.WriteString(strconv.FormatFloat(x, 'f', 1, 64) + " " + strconv.FormatFloat(y, 'f', 1, 64))
	}
	end := func(x float64) {
		if drawing {
			coordinate(&area, 'L', x, sparkHeight)
			coordinate(&area, 'L', begun, sparkHeight)
			area.WriteByte('Z')
		}
		drawing = false
	}
	for i, v := range values {
		x, y := float64(i)*step, sparkHeight-1-(sparkHeight-3)*v/s.Peak
		if v < 0 {
			end(x - step)
			continue
		}
		op := byte('L')
		if !drawing {
			op, begun = 'M', x
		}
		coordinate(&line, op, x, y)
		coordinate(&area, op, x, y)
		if !drawing { // a single value is drawn as a dot
			coordinate(&line, 'L', x+0.1, y)
		}
		drawing = true
	}
	end(sparkWidth)
	s.Line, s.Area = line.String(), area.String()
	return s
}
