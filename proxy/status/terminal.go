package status

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"penstock/proxy/plaintext"
)

// Terminal writes the state for a terminal of the given width (80 is enough), with colours when
// ansi is true. Colour only repeats what the words say.
func (s *Status) Terminal(width int, ansi bool) []byte {
	t := terminal{width: max(60, width), ansi: ansi}
	t.wrap(paint(s.Verdict.Level), "Penstock  "+s.Verdict.Text)
	t.wrap(dim,
		fmt.Sprintf("%d in flight · %d ended · %d connections · retries %d of %d · up %s · configuration #%d",
			s.InFlight, s.Finished, s.Connections, s.Retries.Used, s.Retries.Allowed, Ago(s.Now.Sub(s.Started)), s.Version))
	t.models(s)
	t.upstreams(s)
	t.fleet(s)
	t.discoveries(s)
	t.calls(s)
	if len(s.Refusals) > 0 {
		t.head("REFUSED (5 min)")
		for _, r := range s.Refusals[:min(len(s.Refusals), 5)] {
			t.line("", fmt.Sprintf("%5d  %-24s %s", r.Count, r.Code,
				plaintext.Line(strings.TrimSpace(r.Model+" "+r.Key))))
		}
	}
	if r := s.LastReload; r != nil && !r.OK {
		what := "RELOAD FAILED at "
		if r.KeysInForce {
			what = "RELOADED KEYS ALONE at "
		}
		t.head(what + r.At.Format("15:04:05"))
		for _, p := range r.Problems {
			what, _, _ := strings.Cut(p, "\n") // without the excerpt
			t.wrap(red, what)
		}
	}
	return t.out.Bytes()
}

// Escape sequences of the colours.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

func paint(level string) string {
	return map[string]string{LevelOK: green, LevelDegraded: yellow, LevelOut: red, LevelDraining: yellow}[level]
}

type terminal struct {
	out   bytes.Buffer
	width int
	ansi  bool
}

// line writes one line, cut at the width. Names come from a file that others write, so nothing in
// them can move the cursor.
func (t *terminal) line(colour, text string) {
	text = plaintext.Line(text)
	if utf8.RuneCountInString(text) > t.width {
		text = string([]rune(text)[:t.width-1]) + "…"
	}
	if t.ansi && colour != "" {
		text = colour + text + plain
	}
	t.out.WriteString(text + "\n")
}

// wrap writes a text that must be read whole, on as many lines as it takes: broken at blanks, and
// where a word is longer than a line, in the word.
func (t *terminal) wrap(colour, text string) {
	rest, indent := []rune(plaintext.Line(text)), ""
	for {
		room := t.width - len(indent)
		if len(rest) <= room {
			t.line(colour, indent+string(rest))
			return
		}
		end := room
		for end > 0 && rest[end] != ' ' {
			end--
		}
		if end == 0 {
			end = room
		}
		t.line(colour, indent+strings.TrimRight(string(rest[:end]), " "))
		rest, indent = []rune(strings.TrimLeft(string(rest[end:]), " ")), "  "
	}
}

func (t *terminal) head(text string) {
	t.out.WriteByte('\n')
	t.line(bold, text)
}

func (t *terminal) discoveries(s *Status) {
	for _, d := range s.Discoveries {
		colour := ""
		if d.Problem() != "" {
			colour = yellow
		}
		t.line(colour, d.Text())
	}
	for _, i := range s.Issuers {
		colour := ""
		if i.Problem() != "" {
			colour = yellow
		}
		t.line(colour, i.Text())
	}
}

func (t *terminal) fleet(s *Status) {
	if s.Fleet == nil {
		return
	}
	t.head(fmt.Sprintf("%-24s %-14s %-14s %9s  %s", "EDGE", "BUILD", "CONFIGURATION", "IN FLIGHT", "UP"))
	for _, m := range s.Fleet.Members {
		mark := ""
		if m.Self {
			mark = " (this)"
		}
		t.line("", fmt.Sprintf("%-24s %-14s %-14s %9d  %s", fit(m.Name, 24-len(mark))+mark,
			fit(m.Version, 14), fit(m.Config, 14), m.InFlight,
			Ago(s.Now.Sub(time.Unix(m.Started, 0)))))
	}
	if !s.Fleet.StoreAnswers {
		t.line(yellow, "The store does not answer: limits are held without it ("+s.Fleet.WhenLost+").")
	}
}

func (t *terminal) models(s *Status) {
	t.head(fmt.Sprintf("%-28s %-7s %-28s %s", "MODEL", "STATE", "SLOTS", "QUEUE"))
	for i := range s.Models {
		m := &s.Models[i]
		state, colour := "served", ""
		if !m.Ready {
			state, colour = "OUT", red
		}
		queue := "-"
		if m.Queue != nil {
			queue = fmt.Sprintf("%d of %d", m.Queue.Waiting, m.Queue.Depth)
		}
		name := fit(m.ID, 28)
		for _, p := range poolsOf(*m) {
			t.line(colour, fmt.Sprintf("%-28s %-7s %s %-16s %s", name, state, gauge(p.Active, p.Total),
				fmt.Sprintf("%d/%d %s", p.Active, p.Total, poolWord(p.Name)), queue))
			name, state, queue = "", "", ""
		}
		if name != "" {
			t.line(colour, fmt.Sprintf("%-28s %-7s %-28s %s", name, state, "-", queue))
		}
	}
}

func poolWord(name string) string {
	if strings.HasPrefix(name, "shared") {
		return ""
	}
	return name
}

// gaugeWidth is the length of a bar in characters.
const gaugeWidth = 10

func gauge(active, total int) string {
	full := 0
	if total > 0 {
		full = min(gaugeWidth, (active*gaugeWidth+total-1)/total)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat("·", gaugeWidth-full) + "]"
}

func (t *terminal) upstreams(s *Status) {
	t.head(fmt.Sprintf("%-20s %-18s %-11s %-8s %8s %8s", "UPSTREAM", "STATE", "IN FLIGHT", "LIMIT BY", "TTFT p95",
		"tok/s"))
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		since := " " + Ago(secondsOf(u.Since()))
		state, colour := u.State+since, ""
		switch {
		case u.Mode != "ready":
			state, colour = u.Mode+since, yellow
			if u.ModeWho != "" {
				state += " by " + plaintext.Line(u.ModeWho)
			}
		case u.State == "down", u.State == "stalled":
			colour = red
		case u.Breaker != "closed":
			state, colour = "breaker "+u.Breaker, yellow
		}
		active, limit := 0, 0
		for _, p := range ownPools(u) {
			active, limit = active+p.Active, limit+p.Total
		}
		t.line(colour, fmt.Sprintf("%-20s %-18s %-11s %-8s %8s %8s", fit(u.Label, 20), fit(state, 18),
			fmt.Sprintf("%d/%d", active,
				limit), u.Limits.Source, millis(u.History.TTFTP95Millis), rateOf(at(u.History.TokensPerSecond,
				len(u.History.TokensPerSecond)-1))))
		if why := u.trouble(); why != "" && colour != "" {
			t.wrap(dim, "  "+why)
		}
	}
}

// terminalCalls is how many calls fit a screen.
const terminalCalls = 12

func (t *terminal) calls(s *Status) {
	t.head(fmt.Sprintf("%-12s %-16s %-10s %-14s %6s %6s %8s", "CALL", "MODEL", "UPSTREAM", "STATE", "PROMPT", "OUT",
		"TIME"))
	for i := range s.Calls[:min(len(s.Calls), terminalCalls)] {
		c := &s.Calls[i]
		state, colour, prompt, out := c.State, "", strconv.Itoa(c.Cached+c.Fresh), strconv.Itoa(c.Generated)
		switch {
		case c.Running():
			colour, prompt, out = green, "…", "…"
		case c.State == StateFailed:
			state, colour = failedState(c), red
		case c.State == StateDone:
			state = strconv.Itoa(c.Status)
		}
		t.line(colour, fmt.Sprintf("%-12s %-16s %-10s %-14s %6s %6s %8s", short(c.ID), fit(c.Model, 16),
			fit(c.Upstream, 10), fit(state, 14), prompt, out, millis(c.Duration)))
	}
	if len(s.Calls) == 0 {
		t.line(dim, "none yet")
	}
}

// failedState is the status, and behind it the code if that is a success's: a stream that broke has
// begun with 200.
func failedState(c *Call) string {
	if c.Status >= 400 || c.Code == "" {
		return strconv.Itoa(c.Status)
	}
	return "✕ " + strings.TrimPrefix(c.Code, "upstream_")
}

// fit cuts a name to n characters.
func fit(s string, n int) string {
	s = plaintext.Line(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
