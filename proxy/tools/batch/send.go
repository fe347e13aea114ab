package batch

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// mostAttempts is how often a line without an answer is sent. Refusals because there is no free
	// slot do not count, because the line did not cause them.
	mostAttempts = 8
	// mostFailures is how many consecutive attempts, of any lines, may get no answer before the run
	// ends.
	mostFailures = 3 * mostAttempts
	// longestPause is the maximum pause between two attempts. shortestRetry is the pause after a
	// refusal without a Retry-After.
	longestPause  = time.Minute
	shortestRetry = time.Second
	// longestWait is the maximum Retry-After that a line waits for. A longer one means that a
	// budget is used up, and ends the run.
	longestWait = 10 * time.Minute
)

// errKey ends the run, because every line would fail.
var errKey = errors.New("the edge refuses the key")

// errPath also ends the run. A missing model is also a 404, but concerns only its own line.
var errPath = errors.New("there is no such endpoint there: --url is the edge's address, such as http://127.0.0.1:4000")

// errNoAnswer also ends the run.
var errNoAnswer = errors.New("nothing is answered any more: start the batch again to continue it")

// codeNoAnswer is the code of a line without a complete answer.
const codeNoAnswer = "no_answer"

// work sends one line until it has an answer or is given up. An error ends the run, and the line
// remains unanswered.
func (r *run) work(ctx context.Context, line *request) (*answer, error) {
	for attempt := 1; ; {
		if err := r.gate.enter(ctx); err != nil {
			return nil, err
		}
		res, after, err := r.send(ctx, line)
		if ctx.Err() != nil {
			r.gate.leaveRefused(0)
			return nil, ctx.Err()
		}
		a := &answer{ID: "batch_req_" + newID(), CustomID: line.CustomID, Response: res}
		switch {
		case err != nil:
			a.Error = &failure{Code: codeNoAnswer, Message: "The connection failed, or broke off within the answer."}
		case res.Status == http.StatusUnauthorized:
			r.gate.leaveRefused(0)
			return nil, errKey
		case res.Status == http.StatusNotFound && res.code() != "model_not_found":
			r.gate.leaveRefused(0)
			return nil, fmt.Errorf("%s:%d: the answer is 404: %w", r.o.In, line.number, errPath)
		case !retryable(res.Status):
			r.gate.leave()
			r.failures.Store(0)
			r.why.Store(nil)
			return a, nil
		}
		why := res.words(err)
		r.why.Store(&why)
		full := res != nil && res.Status == http.StatusTooManyRequests
		if after == 0 {
			after = min(shortestRetry<<min(attempt-1, 10), longestPause)
		}
		r.gate.leaveRefused(min(after, longestPause))
		if err != nil {
			select {
			case r.unanswered <- struct{}{}:
			default: // already reported
			}
		}
		switch {
		case full && after > longestWait:
			return nil, fmt.Errorf("%s:%d: the edge answers 429 %s until %s: start the batch again then to continue it",
				r.o.In, line.number, res.code(), time.Now().Add(after).UTC().Format(time.RFC3339))
		case full:
		case attempt == mostAttempts:
			return a, nil
		case r.failures.Add(1) >= mostFailures:
			return nil, fmt.Errorf("%s: %w", why, errNoAnswer)
		default:
			attempt++
		}
		if err := sleep(ctx, after); err != nil {
			return nil, err
		}
	}
}

// send sends a line once. An error means that there is no answer.
func (r *run) send(ctx context.Context, line *request) (res *response, after time.Duration, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+line.URL, bytes.NewReader(line.Body))
	if err != nil {
		return nil, 0, err
	}
	q.Header.Set("Content-Type", "application/json")
	if r.o.Key != "" {
		q.Header.Set("Authorization", "Bearer "+r.o.Key)
	}
	got, err := r.transport.RoundTrip(q)
	if err != nil {
		return nil, 0, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(io.LimitReader(got.Body, longestLine))
	if err != nil {
		return nil, 0, err
	}
	var one bytes.Buffer
	if json.Compact(&one, body) != nil { // not JSON: audio, or the page of another server
		one.Reset()
		text, err := json.Marshal(body)
		if err != nil {
			return nil, 0, err
		}
		one.Write(text)
	}
	return &response{Status: got.StatusCode, RequestID: got.Header.Get("X-Request-Id"), Body: one.Bytes()},
		retryAfter(got.Header.Get("Retry-After")), nil
}

// retryAfter returns the wait in seconds that a header requests, or 0 if it requests none. A larger
// value becomes the maximum Duration.
func retryAfter(header string) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	n, err := strconv.ParseInt(header, 10, 64) // n is the maximum for larger values
	if n <= 0 || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(n, most)) * time.Second
}

// words describes why there is no answer yet: err, or the edge's refusal.
func (r *response) words(err error) string {
	if err == nil {
		return strings.TrimSpace(fmt.Sprintf("the edge answers %d %s", r.Status, r.code()))
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err.Error()
	}
	return err.Error()
}

// code returns the code of the answer's error if the edge wrote the error, and otherwise "".
func (r *response) code() string {
	var body struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(r.Body, &body) != nil || strings.Trim(body.Error.Code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return body.Error.Code
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
