package batch

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// CLI contains the flags of the command.
type CLI struct {
	In          string `arg:"" values:"files" name:"in.jsonl" help:"File of requests: one JSON object a line with custom_id, method, url and body, as OpenAI's Batch API has it."`
	Out         string `short:"o" name:"out" required:"" placeholder:"FILE" help:"File of answers. Requests that it already answers are not sent again."`
	URL         string `name:"url" default:"http://127.0.0.1:4000" placeholder:"URL" help:"Address of the edge's API (default: ${default})."`
	KeyFile     string `name:"key-file" placeholder:"FILE" help:"File whose first line is the API key; without it the environment variable PENSTOCK_API_KEY."`
	Concurrency int    `short:"c" default:"64" placeholder:"N" help:"Most requests at once (default: ${default}). How many there are follows from the edge's answers."`
}

// Help is printed below the flags.
func (c *CLI) Help() string {
	return `Every line of the input gets one line in the output: {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}. The order is that
of the answers. A batch that was interrupted or killed continues when it is started again. It then repeats lines that found no engine or no room, and lines
whose model did not exist or was not allowed to the key. A wrong key or address ends the batch.
After a 429 it waits as Retry-After says, up to 10 minutes: a used-up budget ends the batch. An answer that is not JSON, such as speech, is written as base64.
Exit codes: 0 when every line was answered, 1 when the batch could not continue, or another one writes the output, 2 for a wrong input, or an output that is another file, 3 when lines of the output have errors, 130 after SIGINT or SIGTERM.`
}

// Run runs the command.
func (c *CLI) Run() error {
	if c.Concurrency < 1 {
		return &ExitError{exitUsage, errors.New("--concurrency must be at least 1")}
	}
	key := os.Getenv("PENSTOCK_API_KEY")
	if c.KeyFile != "" {
		text, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return &ExitError{exitUsage, err}
		}
		key = parseKeyFile(string(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return Run(ctx, &Options{
		In: c.In, Out: c.Out, URL: c.URL, Key: strings.TrimSpace(key), Concurrency: c.Concurrency, Notes: os.Stderr,
	})
}

// parseKeyFile returns the first line of a key file if the file has the format of `penstock key
// new`. In this format, the key is the only line or is followed by an empty line. For any other
// format, parseKeyFile returns the entire text, which is not a valid key.
func parseKeyFile(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	first, rest, _ := strings.Cut(text, "\n")
	if next, _, _ := strings.Cut(rest, "\n"); strings.TrimSpace(next) == "" {
		return strings.TrimSpace(first)
	}
	return text
}
