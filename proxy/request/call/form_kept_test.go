package call_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/internal/calltest"
)

// TestFormIsHeldUntilResponseHead checks a stream that starts before the engine's response headers
// have arrived. Until then, the exchange may send the form again, so the form's memory must not be
// used for another form.
func TestFormIsHeldUntilResponseHead(t *testing.T) {
	const path = "/v1/audio/transcriptions"
	yaml := "stream: {commit_after: 1s}\n" + strings.Replace(oneEngine("", "    kind: audio-transcription\n"), "concurrency: 1", "concurrency: 2", 1)
	own, other := audioForm("own", true), audioForm("other", false)
	transcript := calltest.PiecesHandler(200, "application/json", `{"text":"good day"}`)
	slow := calltest.DelayHandler(3*time.Second, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}and surplus bytes")
		_ = conn.Close()
	})
	// The engine answers four requests: the call that opens the connection, the stream, the other
	// form, and the stream again.
	a := singleEngine(calltest.SequenceHandler(transcript, slow, transcript))
	synctest.Test(t, func(t *testing.T) {
		e := calltest.New(t, yaml, a)
		e.Post(path, own.body, own.mediaType) // leaves a connection that the next call reuses
		client := &calltest.Client{Lines: func(at time.Duration, _ string) {
			if at < 2*time.Second {
				e.Post(path, other.body, other.mediaType)
			}
		}}
		got := e.Send(client, path, own.body, own.mediaType)
		if got.Status != 200 || !strings.Contains(got.Body, "good day") {
			t.Errorf("got %d %s", got.Status, got.Body)
		}
		asked := a.RequestBodies()
		if last := asked[len(asked)-1]; len(asked) != 4 || last != asked[1] {
			t.Errorf("the engine was asked %d times, want 4; the form sent again: %.300q", len(asked), last)
		}
		if n := e.Services.Bodies.UsedBytes(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
	})
}

type sentForm struct{ body, mediaType string }

// audioForm returns a form of almost 256 KiB. The edge stores forms up to this size and can
// therefore send them again.
func audioForm(mark string, stream bool) sentForm {
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	_ = parts.WriteField("model", "m")
	if stream {
		_ = parts.WriteField("stream", "true")
	}
	file, _ := parts.CreateFormFile("file", "a.wav")
	_, _ = io.WriteString(file, strings.Repeat(mark, 254<<10/len(mark)))
	_ = parts.Close()
	return sentForm{form.String(), "Content-Type: " + parts.FormDataContentType()}
}
