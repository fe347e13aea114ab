package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/plaintext"
	"penstock/proxy/status"
)

// TopOptions says what Top shows and where.
type TopOptions struct {
	Admin, Token string // of the edge's admin listener
	Out          io.Writer
	JSON         bool // once, as the edge gives it
	Once         bool
	Interval     time.Duration // between two requests; at least minInterval
	Width        int           // of the terminal, in characters
	Colour       bool
}

const (
	minInterval = 100 * time.Millisecond
	topTimeout  = 5 * time.Second
)

// Escape sequences of the alternate screen, so that the terminal shows its former text again
// afterwards.
const (
	screenOpen  = "\x1b[?1049h\x1b[?25l"
	screenHome  = "\x1b[H\x1b[J"
	screenClose = "\x1b[?25h\x1b[?1049l"
)

// Top shows a running edge's state in a terminal until ctx ends, or once. If the first request
// fails, Top returns the error. Later errors are shown on the screen, and Top asks again.
func Top(ctx context.Context, o TopOptions) error {
	first, err := topFrame(&o)
	if err != nil {
		return err
	}
	if o.Once || o.JSON {
		_, err := o.Out.Write(first)
		return err
	}
	_, _ = io.WriteString(o.Out, screenOpen+screenHome) // when the terminal is closed, SIGHUP ends the process
	defer io.WriteString(o.Out, screenClose)            //nolint:errcheck // as above
	_, _ = o.Out.Write(first)
	tick := time.NewTicker(max(o.Interval, minInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		frame, err := topFrame(&o)
		if err != nil {
			frame = fmt.Appendf(nil, "%s\n", plaintext.Text(err.Error()))
		}
		if _, err := o.Out.Write(append([]byte(screenHome), frame...)); err != nil {
			return err
		}
	}
}

func topFrame(o *TopOptions) ([]byte, error) {
	body, err := ask(fasthttp.MethodGet, o.Admin, "/status", o.Token, nil, topTimeout)
	if err != nil {
		return nil, err
	}
	if o.JSON && json.Valid(body) {
		return plaintext.JSON(body), nil
	}
	var s status.Status
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("%s did not answer like a Penstock admin listener", o.Admin)
	}
	return s.Terminal(o.Width, o.Colour), nil
}
