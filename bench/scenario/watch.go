package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"penstock/bench/load/client"
)

// watchInterval is how often an event that is waiting for the edge's reaction reads the edge's
// metrics.
const watchInterval = 100 * time.Millisecond

func (f *fleet) fetchMetrics(ctx context.Context) (metricsPage, error) {
	edge, err := client.NewTarget(f.Admin, false, nil)
	if err != nil {
		return nil, err
	}
	p, err := edge.Fetch(ctx, edge.Path+"/metrics", nil, edge.Headers)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the edge's metrics: %s", client.DescribeNetworkError(err))
	case p.Status != 200:
		return nil, fmt.Errorf("the edge's metrics: status %d", p.Status)
	}
	return p.Body, nil
}

// metricsPage is a page in Prometheus text format.
type metricsPage []byte

// acceptsCalls reports whether the edge sends calls to an engine. The edge does so if the engine is
// up and not stalled, and its breaker is closed.
func (p metricsPage) acceptsCalls(engine string) bool {
	label := "{upstream=" + strconv.Quote(engine) + "}"
	return client.MetricValue(p, "penstock_upstream_up"+label) == 1 &&
		client.MetricValue(p, "penstock_upstream_stalled"+label) == 0 &&
		client.MetricValue(p, "penstock_upstream_breaker_open"+label) == 0
}

// waitEngineUse waits until the edge sends calls to the engine. If calls is false, it waits until
// the edge sends none.
func (f *fleet) waitEngineUse(ctx context.Context, engine string, calls bool) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		page, err := f.fetchMetrics(ctx)
		switch {
		case ctx.Err() != nil && calls:
			return fmt.Errorf("the run ended before %s was back", engine)
		case ctx.Err() != nil:
			return fmt.Errorf("the run ended before %s was out", engine)
		case err != nil:
			return err
		case page.acceptsCalls(engine) == calls:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// silentEngineCalls contains the members that two calls add to a request. An engine is silent
// during each of these calls, because the call requests a fault from the simulator. In the first
// call, the prefill is long and has three chunks. In the second, the engine sends a tool call only
// when the tool call is complete.
var silentEngineCalls = [...]string{
	`"sim":{"tokens":20,"fault":"long-prefill=%s;chunks=3"}`,
	`"tool_choice":"required","tools":[{"type":"function","function":{"name":"lookup",` +
		`"parameters":{"type":"object","properties":{"key":{"type":"string"}}}}}],"sim":{"fault":"buffered-call=%s"}`,
}

// runBusyEvent sends each silent call twice, all calls concurrently, and watches the model's
// engines until all calls are answered. It fails if the edge stops using an engine or if a call
// fails.
func (f *fleet) runBusyEvent(ctx context.Context, model, silence string) (seen string, err error) {
	watching, done := context.WithCancel(ctx)
	defer done()
	var calls, watchers sync.WaitGroup
	var alarm error
	watchers.Go(func() {
		defer done()
		alarm = f.watchForOutage(watching, model)
	})
	failed := make([]error, 2*len(silentEngineCalls))
	for i := range failed {
		calls.Go(func() {
			failed[i] = f.makeStreamedCall(ctx, model, fmt.Sprintf(silentEngineCalls[i%len(silentEngineCalls)], silence))
		})
	}
	calls.Wait()
	done()
	watchers.Wait()
	return fmt.Sprintf("%d silent calls answered, no engine out", len(failed)), errors.Join(append(failed, alarm)...)
}

// watchForOutage returns an error if the edge stops using an engine of the model before ctx ends.
func (f *fleet) watchForOutage(ctx context.Context, model string) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		page, err := f.fetchMetrics(ctx)
		if err != nil {
			continue
		}
		for _, e := range f.spec.Engines {
			if e.serves(model) && !page.acceptsCalls(e.Name) {
				return fmt.Errorf("false alarm: %s is out, and it works", e.Name)
			}
		}
	}
}

// makeStreamedCall makes a streamed call and reads the response to its end.
func (f *fleet) makeStreamedCall(ctx context.Context, model, more string) error {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"Are you there?"}],%s}`, model, more)
	t, err := client.NewTarget(f.URL, false, client.BearerHeader(f.Key))
	if err != nil {
		return err
	}
	p, err := t.FetchWithoutTimeout(ctx, t.Path+"/v1/chat/completions", []byte(body), t.Headers)
	switch {
	case err != nil:
		return fmt.Errorf("a silent call: %s", client.DescribeNetworkError(err))
	case p.Status != 200:
		return fmt.Errorf("a silent call: status %d", p.Status)
	case bytes.Contains(p.Body, []byte(`"error"`)), !bytes.HasSuffix(p.Body, []byte("data: [DONE]\n\n")):
		return errors.New("a silent call: the stream did not end well")
	}
	return nil
}
