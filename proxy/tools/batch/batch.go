package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the options of the command.
type Options struct {
	In, Out     string
	URL         string
	Key         string // empty if there is no key
	Concurrency int
	Notes       io.Writer
}

// These exit codes are used in addition to 0 (every line was answered) and 1 (the batch could not
// continue).
const (
	exitUsage       = 2
	exitFailedLines = 3   // some lines failed
	exitInterrupted = 130 // stopped by a signal; the next run continues
)

// ExitError is an error with an exit code.
type ExitError struct {
	Code int
	err  error
}

// Error implements error.
func (e *ExitError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *ExitError) Unwrap() error { return e.err }

// ExitCode returns the exit code.
func (e *ExitError) ExitCode() int { return e.Code }

type run struct {
	o         *Options
	baseURL   string
	gate      *slotGate
	out       *outputFile
	transport *http.Transport

	unanswered chan struct{} // receives a value after an attempt that got no response
	failures   atomic.Int64  // number of consecutive attempts without a response
	// lastFailure is why the last attempt got no response. It is nil if that attempt got a
	// response.
	lastFailure atomic.Pointer[string]
	ok, refused atomic.Int64
}

// validate returns an error for invalid options. Its errors never contain the key.
func (o *Options) validate() error {
	if o.In == "-" || o.Out == "-" {
		return errors.New("the input and the output must be files, since a batch resumes from them: - is not allowed")
	}
	if at, err := url.Parse(o.URL); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" {
		return errors.New("--url is no address of an edge, such as http://127.0.0.1:4000")
	}
	if strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the API key has a blank, a line break or another character that no key has: " +
			"the key is the file's first line, and what follows it comes after a blank line")
	}
	return nil
}

// Run processes the lines that are not in the output yet. If ctx is done before all lines are
// processed, the next run sends the remaining lines.
func Run(ctx context.Context, o *Options) error {
	if err := o.validate(); err != nil {
		return &ExitError{exitUsage, err}
	}
	lines, err := checkInput(o.In)
	if err != nil {
		return &ExitError{exitUsage, err}
	}
	if a, err := os.Stat(o.In); err == nil {
		if b, err := os.Stat(o.Out); err == nil && os.SameFile(a, b) {
			return &ExitError{exitUsage, errors.New("the output is the input")}
		}
	}
	r := &run{o: o, baseURL: strings.TrimSuffix(strings.TrimRight(o.URL, "/"), "/v1"), gate: newGate(o.Concurrency)}
	r.unanswered = make(chan struct{}, 1)
	// The transport does not use a proxy.
	r.transport = &http.Transport{MaxIdleConnsPerHost: o.Concurrency, IdleConnTimeout: time.Minute}
	defer r.transport.CloseIdleConnections()
	if r.out, err = openOutput(o.Out); err != nil {
		return err
	}
	had := len(r.out.doneIDs)
	stop := r.printProgress(lines - had)
	err = errors.Join(r.processLines(ctx), r.out.close())
	stop()
	refused := r.out.refused + int(r.refused.Load())
	fmt.Fprintf(o.Notes, "%d lines: %d answered before, %d answered now, %d without success\n",
		lines, had-r.out.refused, r.ok.Load(), refused)
	switch {
	case ctx.Err() != nil:
		return &ExitError{exitInterrupted, errors.New("interrupted: start the batch again to continue it")}
	case err == nil && refused > 0:
		return &ExitError{exitFailedLines, fmt.Errorf("%d lines have an error, as the output shows; another start repeats those that were "+
			"not refused for their content", refused)}
	}
	return err
}

func (r *run) processLines(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan *request)
	var workers sync.WaitGroup
	for range r.o.Concurrency {
		workers.Go(func() {
			for line := range todo {
				if err := r.processLine(ctx, line); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := eachLine(r.o.In, func(number int, text []byte) error {
		line := &request{number: number}
		if err := json.Unmarshal(text, line); err != nil || r.out.doneIDs[line.CustomID] {
			return err
		}
		select {
		case todo <- line:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(todo)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (r *run) processLine(ctx context.Context, line *request) error {
	a, err := r.sendUntilAnswered(ctx, line)
	if err != nil {
		return err
	}
	if a.isSuccess() {
		r.ok.Add(1)
	} else {
		r.refused.Add(1)
	}
	return r.out.writeAnswer(a)
}

const reportEvery = 10 * time.Second

// printProgress prints progress until stop is called. If the first attempt gets no response,
// printProgress prints immediately, so that users notice a wrong address.
func (r *run) printProgress(todo int) (stop func()) {
	over := make(chan struct{})
	var said sync.WaitGroup
	said.Go(func() {
		t := time.NewTicker(reportEvery)
		defer t.Stop()
		unanswered := r.unanswered
		for {
			select {
			case <-over:
				return
			case <-t.C:
				fmt.Fprintln(r.o.Notes, r.progressText(todo))
			case <-unanswered:
				unanswered = nil
				fmt.Fprintf(r.o.Notes, "%s does not answer: %s\n", r.baseURL, r.progressText(todo))
			}
		}
	})
	return func() {
		close(over)
		said.Wait()
	}
}

func (r *run) progressText(todo int) string {
	text := fmt.Sprintf("%d of %d lines, %d at once", r.ok.Load()+r.refused.Load(), todo, r.gate.runningCount())
	if why := r.lastFailure.Load(); why != nil {
		text += ": " + *why + ", trying again"
	}
	return text
}
