package faults

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/config/testkit/raced"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 61 to 63 (forms that are invalid, large, or inconveniently ordered) and
// row 87 (bodies that exceed the memory limit).

// ears is a transcription model at the first engine.
const ears = "- { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }"

// part returns one part of a form with the boundary B. more contains additional header lines.
func part(name, more, value string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\n" + value + "\r\n"
}

func TestFault61_BadForms(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Models: ears, Limits: "upload_body: 8MiB"})
	const (
		end       = "--B--\r\n"
		multipart = "Content-Type: multipart/form-data; boundary=B"
	)
	named, file := part("model", "", "ears"), part("file", "; filename=\"a.wav\"\r\nContent-Type: audio/wav", "RIFF")
	for name, c := range map[string]struct{ kind, form string }{
		"no content type":            {"X-Nothing: 1", named + file + end},
		"no boundary":                {"Content-Type: multipart/form-data", named + file + end},
		"empty boundary":             {"Content-Type: multipart/form-data; boundary=", named + file + end},
		"wrong boundary":             {"Content-Type: multipart/form-data; boundary=C", named + file + end},
		"boundary of 71":             {"Content-Type: multipart/form-data; boundary=" + strings.Repeat("b", 71), named + file + end},
		"two boundaries":             {"Content-Type: multipart/form-data; boundary=C; boundary=B", named + file + end},
		"boundary with a line end":   {"Content-Type: multipart/form-data; boundary=\"B\\\r\"", named + file + end},
		"empty body":                 {multipart, ""},
		"no parts":                   {multipart, end},
		"no model":                   {multipart, file + end},
		"empty model":                {multipart, part("model", "", "") + file + end},
		"model is a file":            {multipart, part("model", "; filename=\"m\"", "ears") + file + end},
		"two models":                 {multipart, named + named + file + end},
		"model in two cases":         {multipart, named + part("Model", "", "sim") + file + end},
		"two models, one behind":     {multipart, named + file + part("model", "", "sim") + end},
		"two names in a part":        {multipart, part("language\"; name=\"model", "", "ears") + file + end},
		"no file":                    {multipart, named + end},
		"file is a text":             {multipart, named + part("file", "", "RIFF") + end},
		"file is an empty text":      {multipart, named + part("file", "", "") + end},
		"two files":                  {multipart, named + file + file + end},
		"no last boundary":           {multipart, named + file},
		"cut in the file":            {multipart, named + file[:len(file)-3]},
		"cut in a head":              {multipart, named + file[:20]},
		"10⁵ parts":                  {multipart, named + strings.Repeat(part("x", "", "y"), 100_000) + file + end},
		"33 parts":                   {multipart, named + strings.Repeat(part("x", "", "y"), 32) + file + end},
		"head of 9 KB":               {multipart, named + part("x", "\r\nX-Y: "+strings.Repeat("a", 9<<10), "y") + file + end},
		"head of 4 MB":               {multipart, named + part("x", "\r\nX-Y: "+strings.Repeat("a", 4<<20), "y") + file + end},
		"head of many lines":         {multipart, named + part("x", strings.Repeat("\r\nX-Y: a", 100_000), "y") + file + end},
		"text of 65 KB":              {multipart, named + part("prompt", "", strings.Repeat("p", 65<<10)) + file + end},
		"name of 9 KB":               {multipart, named + part(strings.Repeat("n", 9<<10), "", "y") + file + end},
		"nested multipart":           {multipart, named + part("file", "\r\nContent-Type: multipart/mixed; boundary=C", "--C\r\n\r\nx\r\n--C--") + end},
		"encoded part":               {multipart, part("model", "\r\nContent-Transfer-Encoding: base64", "ZWFycw==") + file + end},
		"LF for line ends":           {multipart, strings.ReplaceAll(named+file+end, "\r\n", "\n")},
		"part without a name":        {multipart, named + "--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + file + end},
		"part without a head":        {multipart, named + "--B\r\n\r\nx\r\n" + file + end},
		"part that is an attachment": {multipart, named + strings.Replace(file, "form-data", "attachment", 1) + end},
		"preamble without an end":    {multipart, strings.Repeat("x", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := e.Dial()
			conn.T = t
			_ = conn.SetDeadline(time.Now().Add(2 * rig.WaitTimeout))
			begun := time.Now()
			_ = conn.Send(e.RequestHead("POST", transcriptions, c.kind, "Content-Length: "+strconv.Itoa(len(c.form))) + c.form)
			r := conn.ReadReply("POST").WantStatus(400)
			if !strings.Contains(r.Body, `"invalid_request_error"`) {
				t.Errorf("answer = %s, want invalid_request_error", r.Body)
			}
			if took := time.Since(begun); took > time.Second+rig.TimingTolerance {
				t.Errorf("it took %v", took)
			}
			rig.WantNoLeak(t, "the answer", r.Body, e.Key)
		})
	}
	t.Cleanup(func() {
		if n := e.served(); n != 0 {
			t.Errorf("%d requests upstream", n)
		}
		e.WantPeakMemory(150 << 20)
	})
}

// TestFault62_ModelAfterTheFile checks that a file that precedes the model's name is buffered in
// memory, within the memory limit for bodies.
func TestFault62_ModelAfterTheFile(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Models: ears, Limits: "body_memory: 10%", Under: []string{"env", "GOMEMLIMIT=100MiB"}})
	form := func(size int) string {
		return part("file", "; filename=\"a.wav\"", strings.Repeat("x", size)) + part("model", "", "ears") + "--B--\r\n"
	}
	for _, size := range []int{1, 1000, 3 << 20} {
		e.postForm(transcriptions, form(size)).WantStatus(200)
		if l := e.LastAccessLine(); l.Model != "ears" || l.Status != 200 {
			t.Errorf("the log says %+v", l)
		}
	}
	bodyMemory := rig.Refusal{Status: 503, Kind: "api_error", Code: "no_body_memory", After: ""}
	e.postForm(transcriptions, form(12<<20)).WantRefused(rig.Chat, bodyMemory)
	if n := e.served(); n != 3 {
		t.Errorf("%d requests upstream, want 3", n)
	}
	rig.WaitFor(t, rig.WaitTimeout, "memory is given back", func() bool { return e.Metric("penstock_body_memory_bytes") == 0 })
	e.WantPeakMemory(100 << 20)
}

// TestFault63_LargeUploads checks that four simultaneous uploads of a hundred megabytes use little
// memory.
func TestFault63_LargeUploads(t *testing.T) {
	e := start(t, rig.Setup{Models: ears, Limits: "upload_body: 128MiB"})
	e.postForm(transcriptions, formStart("ears")+"x\r\n--B--\r\n").WantStatus(200)
	size := int64(100 << 20)
	if raced.Enabled { // the test would take a minute and could not measure memory
		size = 20 << 20
	}
	before := e.MemoryBytes("VmHWM")
	var uploads sync.WaitGroup
	for range 4 {
		c := e.Dial()
		uploads.Go(func() {
			_ = c.SetDeadline(time.Now().Add(8 * rig.WaitTimeout))
			begin, end := formStart("ears"), "\r\n--B--\r\n"
			_ = c.Send(e.RequestHead("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", "Content-Length: "+strconv.FormatInt(int64(len(begin)+len(end))+size, 10)) + begin)
			if _, err := io.CopyN(c.Conn, zeros{}, size); err != nil {
				t.Error(err)
			}
			_ = c.Send(end)
			if r, err := c.TryReadReply("POST"); err != nil || r.Status != 200 {
				t.Errorf("answer = %+v, %v; want 200", r, err)
			}
		})
	}
	uploads.Wait()
	if grown := e.MemoryBytes("VmHWM") - before; grown > 48<<20 && !raced.Enabled {
		t.Errorf("the program grew by %d MiB", grown>>20)
	}
}

// TestFault87_BodyMemory checks that the total memory of all bodies is limited. Once the memory is
// exhausted, new large bodies must be refused, but small bodies must still be accepted.
func TestFault87_BodyMemory(t *testing.T) {
	e := start(t, rig.Setup{Limits: "body_memory: 20%", Timeouts: "client_body: 30s", Under: []string{"env", "GOMEMLIMIT=100MiB"}})
	pad := strings.Repeat("x", 4<<20)
	var held []*rig.RawConn
	for _, w := range rig.UnstreamedRequestTypes {
		for range 6 {
			whole := e.RequestBytes(w.Path, w.RequestBody("sim", pad, ""))
			c := e.Dial()
			_ = c.SetDeadline(time.Now().Add(4 * rig.WaitTimeout))
			_ = c.Send(whole[:len(whole)-1])
			held = append(held, c)
		}
	}
	bodyMemory := rig.Refusal{Status: 503, Kind: "api_error", Code: "no_body_memory", After: ""}
	refused := func() float64 { return e.Metric("penstock_errors_total", `code="no_body_memory"`) }
	rig.WaitFor(t, rig.WaitTimeout, "the memory holds four bodies", func() bool { return refused() >= float64(len(held)-4) })
	for _, w := range rig.TextRequestTypes {
		e.SendRequest(w, "").VisibleText(w) // a small body is still accepted
		e.Post(w.Path, w.RequestBody("sim", strings.Repeat("x", 8<<20), "")).WantRefused(w, bodyMemory)
	}
	for _, c := range held {
		c.Reset()
	}
	rig.WaitFor(t, rig.WaitTimeout, "memory is given back", func() bool { return e.Metric("penstock_body_memory_bytes") == 0 })
	// Accepted by the edge, but exceeds the engine's context.
	e.Post(rig.Chat.Path, rig.Chat.RequestBody("sim", strings.Repeat("x", 8<<20), "")).WantStatus(400)
	e.WantPeakMemory(140 << 20)
}
