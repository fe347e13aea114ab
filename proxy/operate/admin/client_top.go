package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/status"
	"penstock/proxy/operate/top"
)

// TopOptions configure ShowTop.
type TopOptions struct {
	Edge         Edge
	Out          io.Writer
	JSON         bool // write the edge's JSON response once
	Width        int
	In, Terminal *os.File // if set, ShowTop shows the state in this terminal until the user quits
	Interval     time.Duration
	Colour       bool
}

const (
	minTopInterval = 100 * time.Millisecond
	topTimeout     = 5 * time.Second
	maxTopRows     = 1000
)

// ShowTop shows an edge's state. In a terminal, it continues until the user quits or ctx ends. ShowTop
// returns an error only if the first request fails. Later errors appear on the screen.
func ShowTop(ctx context.Context, o TopOptions) error {
	body, err := fetchStatus(&o)
	if err != nil {
		return err
	}
	if o.JSON && json.Valid(body) {
		_, err := o.Out.Write(plaintext.EscapeJSON(body))
		return err
	}
	s, err := parseStatus(&o, body)
	if err != nil {
		return err
	}
	if o.Terminal == nil {
		_, err := o.Out.Write(s.TerminalText(o.Width))
		return err
	}
	return top.Run(ctx, top.Options{
		First: s, In: o.In, Out: o.Terminal, Interval: max(o.Interval, minTopInterval), Colour: o.Colour,
		Ask: func() (*status.Status, error) {
			body, err := fetchStatus(&o)
			if err != nil {
				return nil, err
			}
			return parseStatus(&o, body)
		},
	})
}

func fetchStatus(o *TopOptions) ([]byte, error) {
	return o.Edge.get("/status?limit="+strconv.Itoa(maxTopRows), topTimeout)
}

func parseStatus(o *TopOptions, body []byte) (*status.Status, error) {
	s := new(status.Status)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%s did not answer like a Penstock admin listener", o.Edge.Admin)
	}
	return s, nil
}
