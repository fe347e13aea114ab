package body

import (
	"bytes"
	"errors"
	"io"
	mime "mime/multipart"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/multipart"
	"penstock/translate/apierr"
	"penstock/translate/audio"
)

// rewriter rewrites a client's form into the engine's form outside a call.
type rewriter struct{ f *Form }

func (r rewriter) Read(p []byte) (int, error) { return r.f.readRewritten(p) }

func rewrite(form io.Reader) (string, error) {
	f := &Form{fields: &audio.Transcription{}, boundary: "ours", partReader: multipart.NewReader(form, "B")}
	out, err := io.ReadAll(rewriter{f})
	return string(out), err
}

func TestFormRewrites(t *testing.T) {
	t.Parallel()
	in := strings.ReplaceAll(`--B
Content-Disposition: form-data; name=model

whisper
--B
Content-Disposition: form-data; name="file"; filename="../a b.mp3"
Content-Type: audio/mpeg; x=1
X-Other: gone

ID3--ours--B
--B
Content-Disposition: form-data; name="timestamp_granularities"

word
--B
Content-Disposition: form-data; name="response_format"

verbose_json
--B--
`, "\n", "\r\n")
	want := strings.ReplaceAll(`--ours
Content-Disposition: form-data; name="file"; filename="a_b.mp3"
Content-Type: audio/mpeg

ID3--ours--B
--ours
Content-Disposition: form-data; name="timestamp_granularities[]"

word
--ours
Content-Disposition: form-data; name="response_format"

verbose_json
--ours--
`, "\n", "\r\n")
	if got, err := rewrite(strings.NewReader(in)); err != nil || got != want {
		t.Errorf("rewrite: error %v, got\n%s\nwant\n%s", err, got, want)
	}
}

// FuzzForm checks that no form causes a panic, and that an engine receives all of the client's
// fields except the model.
func FuzzForm(f *testing.F) {
	part := "--B\r\nContent-Disposition: form-data; name=\""
	f.Add([]byte(part + "model\"\r\n\r\nm\r\n" + part + "file\"; filename=\"a\"\r\n\r\n\r\n--C\r\n" + part + "other\"\r\n\r\n\r\n--B--"))
	f.Add([]byte(part + "file\"; filename=a\r\n\r\nx\r\n" + part + "response_format\"\r\n\r\nsrt\r\n" + part + "model\"\r\n\r\nm\r\n--B--\r\n"))
	f.Fuzz(func(t *testing.T, form []byte) {
		if bytes.Contains(form, []byte("--ours")) {
			t.Skip() // the real boundary is random, so a client cannot guess it
		}
		out, err := rewrite(bytes.NewReader(form))
		if err != nil {
			if e := formError(err); e.Status != 400 {
				t.Fatalf("got the error %v, want a 400", err)
			}
			return
		}
		sent, received := fields(t, string(form), "B"), fields(t, out, "ours")
		i := 0
		for _, s := range sent {
			name := s[0]
			if name == "timestamp_granularities" {
				name += "[]"
			}
			optional := s[1] == "" && name != "file"
			switch {
			case i < len(received) && received[i] == [2]string{name, s[1]}:
				i++
			case name == "model", optional:
			default:
				t.Fatalf("%q is not passed on:\n%q", s, out)
			}
		}
		if rest := received[i:]; len(rest) > 1 || len(rest) == 1 && rest[0] != [2]string{"response_format", "json"} {
			t.Fatalf("invented the fields %q, want at most response_format=json", rest)
		}
	})
}

func fields(t *testing.T, form, boundary string) (out [][2]string) {
	for r := mime.NewReader(strings.NewReader(form), boundary); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("the standard library cannot read it: %v\n%q", err, form)
		}
		b, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, [2]string{p.FormName(), string(b)})
	}
}

// sendAtRate sends bytes at the given rate for the given time, and then stops. It returns how long
// the read took and the status of the error that ended it.
func sendAtRate(t *testing.T, rate int, sending time.Duration, readEvery time.Duration) (ended time.Duration, status int) {
	synctest.Test(t, func(*testing.T) {
		client, server := net.Pipe()
		begun := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for time.Since(begun) < sending {
				time.Sleep(100 * time.Millisecond)
				if _, err := client.Write(make([]byte, rate/10)); err != nil {
					return
				}
			}
		}()
		s := &pacedReader{src: server, conn: server, announced: -1, maxBytes: 1 << 40, maxSilence: 30 * time.Second, minRate: 64 << 10}
		buf := make([]byte, 32<<10)
		for {
			if _, err := s.Read(buf); err != nil {
				var e *apierr.Error
				if errors.As(err, &e) {
					status = e.Status
				}
				break
			}
			time.Sleep(readEvery)
		}
		ended = time.Since(begun)
		_ = client.Close()
		_ = server.Close()
		<-done
	})
	return ended, status
}

func TestPacedReaderPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		rate               int
		sending, readEvery time.Duration
		ends               time.Duration
	}{
		{"nothing arrives", 0, 0, 0, 10 * time.Second},
		{"a drip", 1000, time.Hour, 0, 10 * time.Second},
		{"just too slow", 64<<10 - 100, time.Hour, 0, 10 * time.Second},
		{"fast enough, then silence", 70 << 10, 25 * time.Second, 0, 30 * time.Second},
		{"fast, then silence", 10 << 20, 5 * time.Second, 0, 35 * time.Second},
		{"fast, then silence, into a slow engine", 10 << 20, 50 * time.Second, 100 * time.Millisecond, 80 * time.Second},
	} {
		ended, status := sendAtRate(t, c.rate, c.sending, c.readEvery)
		if slack := 2 * time.Second; status != 408 || ended < c.ends-slack || ended > c.ends+slack {
			t.Errorf("%s: %d after %v, want 408 after %v", c.name, status, ended, c.ends)
		}
	}
}

func TestPacedReaderEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		body             string
		announced, limit int64
		status           int
	}{
		{"whole", "0123456789", 10, 10, 0},
		{"chunked", "0123456789", -1, 10, 0},
		{"chunked and too large", "0123456789", -1, 9, 413},
		{"cut short", "0123456789", 11, 20, 400},
	} {
		_, conn := net.Pipe()
		s := &pacedReader{src: strings.NewReader(c.body), conn: conn, announced: c.announced, maxBytes: c.limit, maxSilence: time.Minute}
		got, err := io.ReadAll(s)
		var e *apierr.Error
		switch {
		case c.status == 0 && (err != nil || string(got) != c.body):
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.body)
		case c.status != 0 && (!errors.As(err, &e) || e.Status != c.status):
			t.Errorf("%s: got the error %v, want the status %d", c.name, err, c.status)
		}
	}
}
