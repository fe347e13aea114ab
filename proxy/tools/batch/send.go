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
	// maxAttempts is how many times a line is sent if it gets no answer. Attempts that found no
	// free slot do not count, because the line did not cause these failures.
	maxAttempts = 8
	// maxConsecutiveFailures is the number of consecutive failed attempts after which the run ends.
	// The attempts may be for different lines.
	maxConsecutiveFailures = 3 * maxAttempts
	// maxPause is the maximum pause between two attempts. minRetryPause is the first pause if
	// the response has no Retry-After.
	maxPause      = time.Minute
	minRetryPause = time.Second
	// maxRetryAfter is the maximum Retry-After. A longer value means that a budget is exhausted,
	// and ends the run.
	maxRetryAfter = 10 * time.Minute
)

// errKeyRejected ends the run, because all other lines would also fail.
var errKeyRejected = errors.New("the edge refuses the key")

// errNoEndpoint ends the run. A 404 for a missing model does not end the run, because it affects
// only one line.
var errNoEndpoint = errors.New("there is no such endpoint there: --url is the edge's address, such as http://127.0.0.1:4000")

var errTooManyFailures = errors.New("nothing is answered any more: start the batch again to continue it")

const codeNoAnswer = "no_answer"

// sendUntilAnswered sends one line repeatedly until it is answered or given up. If it returns an
// error, the run ends.
func (r *run) sendUntilAnswered(ctx context.Context, line *request) (*outputLine, error) {
	for attempt := 1; ; {
		if err := r.gate.enter(ctx); err != nil {
			return nil, err
		}
		res, after, err := r.sendLineOnce(ctx, line)
		if ctx.Err() != nil {
			r.gate.leaveRefused(0)
			return nil, ctx.Err()
		}
		a := &outputLine{ID: "batch_req_" + newID(), CustomID: line.CustomID, Response: res}
		switch {
		case err != nil:
			a.Error = &lineError{Code: codeNoAnswer, Message: "The connection failed, or broke off within the answer."}
		case res.Status == http.StatusUnauthorized:
			r.gate.leaveRefused(0)
			return nil, errKeyRejected
		case res.Status == http.StatusNotFound && res.errorCode() != "model_not_found":
			r.gate.leaveRefused(0)
			return nil, fmt.Errorf("%s:%d: the answer is 404: %w", r.o.In, line.number, errNoEndpoint)
		case !isRetryable(res.Status):
			r.gate.leave()
			r.failures.Store(0)
			r.lastFailure.Store(nil)
			return a, nil
		}
		why := res.failureText(err)
		r.lastFailure.Store(&why)
		full := res != nil && res.Status == http.StatusTooManyRequests
		if after == 0 {
			after = min(minRetryPause<<min(attempt-1, 10), maxPause)
		}
		r.gate.leaveRefused(min(after, maxPause))
		if err != nil {
			select {
			case r.unanswered <- struct{}{}:
			default: // already reported
			}
		}
		switch {
		case full && after > maxRetryAfter:
			return nil, fmt.Errorf("%s:%d: the edge answers 429 %s until %s: start the batch again then to continue it",
				r.o.In, line.number, res.errorCode(), time.Now().Add(after).UTC().Format(time.RFC3339))
		case full:
		case attempt == maxAttempts:
			return a, nil
		case r.failures.Add(1) >= maxConsecutiveFailures:
			return nil, fmt.Errorf("%s: %w", why, errTooManyFailures)
		default:
			attempt++
		}
		if err := sleep(ctx, after); err != nil {
			return nil, err
		}
	}
}

// sendLineOnce sends a line once. If it returns an error, the line got no response.
func (r *run) sendLineOnce(ctx context.Context, line *request) (res *response, after time.Duration, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.baseURL+line.URL, bytes.NewReader(line.Body))
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
	body, err := io.ReadAll(io.LimitReader(got.Body, maxLineBytes))
	if err != nil {
		return nil, 0, err
	}
	var one bytes.Buffer
	if json.Compact(&one, body) != nil { // not JSON, so it is audio or a page from another server
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

// retryAfter returns the number of seconds in a Retry-After header as a Duration. If the header is
// missing or invalid, it returns 0. A value that exceeds the range of a Duration is capped.
func retryAfter(header string) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	n, err := strconv.ParseInt(header, 10, 64) // if the value is too large, n is the maximum
	if n <= 0 || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(n, most)) * time.Second
}

// failureText describes why an attempt produced no final answer. If err is nil, the reason is the
// edge's refusal.
func (r *response) failureText(err error) string {
	if err == nil {
		return strings.TrimSpace(fmt.Sprintf("the edge answers %d %s", r.Status, r.errorCode()))
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err.Error()
	}
	return err.Error()
}

func (r *response) errorCode() string {
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
