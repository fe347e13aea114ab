package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Rows 12 to 17 and 19: what an engine does after the client has seen the first bytes of a stream.

// wantBroken checks a stream that ended badly: what came is there, the last event is an error of ours, nothing says that
// the answer is whole, and the body itself ended properly.
func wantBroken(t testing.TB, r *reply, code string) *apiError {
	t.Helper()
	r.wantStatus(200)
	if r.err != nil {
		t.Errorf("the body did not end properly: %v", r.err)
	}
	events := r.events()
	if len(events) < 2 {
		t.Fatalf("nothing of what came was delivered: %q", r.body)
	}
	for _, e := range events {
		if e.data == "[DONE]" {
			t.Error("a broken stream ends in [DONE]")
		}
		if strings.Contains(e.data, `"finish_reason":"stop"`) {
			t.Error("a broken stream has a finish_reason")
		}
	}
	var e struct {
		Error *apiError `json:"error"`
	}
	last := events[len(events)-1].data
	if err := json.Unmarshal([]byte(last), &e); err != nil || e.Error == nil {
		t.Fatalf("the last event is no error: %q", last)
	}
	if e.Error.Code != code {
		t.Errorf("code %q, want %q", e.Error.Code, code)
	}
	wantNoLeak(t, r.body)
	return e.Error
}

// broken plays a fault in a stream and checks how it ended for the client, for the engine and in the books.
func broken(t *testing.T, spec, code string, s setup) {
	t.Run(spec, func(t *testing.T) {
		t.Parallel()
		s.upstream = quietProbes
		s.engines = two() // a second engine must not be asked
		p := start(t, s)
		for _, e := range p.engines {
			e.SetFault(sim.Fault{Spec: spec})
		}
		wantBroken(t, p.post(chatPath, p.chat(`"stream":true`)), code)
		l := p.lastCall()
		if l.Outcome != "stream_broken" && l.Outcome != "timeout" || l.Status != 200 || l.Attempts != 1 {
			t.Errorf("the log says %+v", l)
		}
		if n := p.engines[0].Stats().Requests + p.engines[1].Stats().Requests; n != 1 {
			t.Errorf("%d requests upstream, want 1: nothing is sent again after the commit", n)
		}
	})
}

func TestFault12_ResetMidStream(t *testing.T) {
	t.Parallel()
	broken(t, "reset-after=3", "upstream_bad_response", setup{})
	broken(t, "reset-after=1", "upstream_bad_response", setup{})
}

func TestFault13_StreamCut(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"chunk-cut=3", "cut-after=3", "close-delimited+cut-after=3", "close-delimited+no-finish",
		"bad-chunk=3;kind=size", "bad-chunk=3;kind=negative", "bad-chunk=3;kind=huge", "bad-chunk=3;kind=nocrlf", "bad-chunk=3;kind=empty",
	} {
		broken(t, spec, "upstream_bad_response", setup{})
	}
	t.Run("close-delimited and whole", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{})
		p.engines[0].SetFault(sim.Fault{Spec: "close-delimited"})
		if _, done := chatText(t, p.post(chatPath, p.chat(`"stream":true`)).wantStatus(200).events()); !done {
			t.Error("no [DONE]")
		}
	})
}

func TestFault14_NoDone(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"no-done", "no-done+close-delimited", "open-end"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{})
			p.engines[0].SetFault(sim.Fault{Spec: spec})
			r := p.post(chatPath, p.chat(`"stream":true`)).wantStatus(200)
			if _, done := chatText(t, r.events()); !done || strings.Contains(r.body, `"error"`) {
				t.Errorf("the stream does not end well: %q", r.body)
			}
			if r.took > 3*time.Second {
				t.Errorf("took %v: waited for what does not come", r.took)
			}
		})
	}
}

func TestFault15_NoFinish(t *testing.T) {
	t.Parallel()
	broken(t, "no-finish", "upstream_bad_response", setup{})
	broken(t, "no-finish;done=1", "upstream_bad_response", setup{})
	broken(t, "no-finish;ghost=1", "upstream_bad_response", setup{})
}

func TestFault16_Silence(t *testing.T) {
	t.Parallel()
	broken(t, "stall-after=3", "generation_timeout", setup{timeouts: "idle: 300ms"})
	t.Run("slow is not silent", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{timeouts: "idle: 600ms"})
		p.engines[0].SetFault(sim.Fault{Spec: "pause-after=3;for=300ms"})
		r := p.post(chatPath, p.chat(`"stream":true,"sim":{"tokens":8,"delay_ms":150}`)).wantStatus(200)
		if _, done := chatText(t, r.events()); !done {
			t.Errorf("a slow stream was cut: %q", r.body)
		}
	})
	t.Run("comments are life", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{timeouts: "idle: 400ms"})
		p.engines[0].SetFault(sim.Fault{Spec: "stall-after=3;ping=100ms"})
		s := p.openStream(chatPath, p.chat(`"stream":true`))
		for range 2 {
			s.next()
		}
		time.Sleep(1200 * time.Millisecond) // three times the idle limit, in which nothing may happen
		if n := p.engines[0].Stats().Running; n != 1 {
			t.Errorf("%d running: a stream with signs of life was cut", n)
		}
		s.leave()
	})
}

func TestFault17_ErrorInStream(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"error-in-stream", "error-in-stream;done=1", "error-in-stream;done=0"} {
		broken(t, spec, "upstream_failed", setup{})
	}
	broken(t, "error-in-stream;code=503", "no_healthy_route", setup{})
	broken(t, "error-in-stream;message=worker at "+sim.LeakedHost+" died in "+sim.LeakedPath, "upstream_failed", setup{})
}

func TestFault19_OtherFormsOfSSE(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	const text = `Fünf große Übel: \"quoted\", 漢字, 👩🏽‍🚀, \\ and \n line.`
	body := p.chat(`"stream":true,"stream_options":{"include_usage":true},"sim":{"text":"` + text + `"}`)
	clean := p.post(chatPath, body).wantStatus(200)
	want, _ := chatText(t, clean.events())
	if !strings.Contains(want, "👩🏽‍🚀") {
		t.Fatalf("the clean stream says %q", want)
	}
	for _, spec := range []string{
		"crlf", "cr", "nospace", "comments", "multiline-data", "fields", "bom", "escaped", "open-end", "byte-by-byte", "split",
		"crlf+split", "cr+byte-by-byte", "multiline-data+split", "bom+comments+fields+crlf+split", "close-delimited+split", "escaped+byte-by-byte",
		"usage-every-chunk", "usage-on-finish",
	} {
		t.Run(spec, func(t *testing.T) {
			r := p.post(chatPath, strings.Replace(body, `"sim":{`, `"sim":{"fault":"`+spec+`",`, 1)).wantStatus(200)
			got, done := chatText(t, r.events())
			if got != want || !done {
				t.Errorf("text %q, done %v, want %q", got, done, want)
			}
			if !strings.Contains(r.body, `"total_tokens"`) {
				t.Error("the usage is lost")
			}
		})
	}
	t.Run("huge-event", func(t *testing.T) {
		for _, n := range []string{"2097152", "8000000"} {
			r := p.post(chatPath, p.chat(`"stream":true,"sim":{"fault":"huge-event=`+n+`"}`)).wantStatus(200)
			got, done := chatText(t, r.events())
			if !done || strings.Count(got, "w") < 2<<20 {
				t.Errorf("%d bytes of text, done %v", len(got), done)
			}
		}
	})
	t.Run("too huge", func(t *testing.T) {
		wantBroken(t, p.post(chatPath, p.chat(`"stream":true,"sim":{"fault":"huge-event=9000000"}`)), "upstream_bad_response")
	})
}
