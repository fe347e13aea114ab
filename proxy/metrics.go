package proxy

import (
	"bytes"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"penstock/config"
	"penstock/proxy/build"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/call"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/proxy/telemetry/process"
	"penstock/routing"
)

// registerGauges registers the metrics that describe the state of the edge.
func (e *Edge) registerGauges() {
	gauge := func(name string, f func() float64) { e.metrics.NewGauge(name, f) }
	gauge("penstock_body_memory_bytes", func() float64 { return float64(e.services.Bodies.UsedBytes()) })
	gauge("penstock_body_memory_limit_bytes", func() float64 { return float64(e.services.Bodies.Limit()) })
	gauge("penstock_reply_memory_bytes", func() float64 { return float64(e.services.Replies.UsedBytes()) })
	gauge("penstock_reply_memory_limit_bytes", func() float64 { return float64(e.services.Replies.Limit()) })
	gauge("penstock_client_connections", func() float64 { return float64(e.listener.OpenConnCount()) })
	gauge("penstock_client_connections_limit", func() float64 { return float64(e.listener.MaxConns()) })
	gauge("penstock_websocket_connections", func() float64 {
		open, _ := e.websockets.ConnectionCounts()
		sessions, _ := e.sessions.SessionCounts()
		return float64(open + sessions)
	})
	gauge("penstock_websocket_connections_total", func() float64 {
		_, opened := e.websockets.ConnectionCounts()
		_, sessions := e.sessions.SessionCounts()
		return float64(opened + sessions)
	})
	gauge("penstock_accept_errors_total", func() float64 {
		n := e.listener.AcceptErrorCount()
		if e.admin != nil {
			n += e.admin.Listener().AcceptErrorCount()
		}
		return float64(n)
	})
	if e.admin != nil {
		operators := e.admin.Listener()
		gauge("penstock_admin_connections", func() float64 { return float64(operators.OpenConnCount()) })
		gauge("penstock_admin_connections_limit", func() float64 { return float64(operators.MaxConns()) })
		gauge("penstock_admin_connections_dropped_total", func() float64 { return float64(operators.RejectedCount() + operators.EvictedCount()) })
	}
	gauge("penstock_client_connections_evicted_total", func() float64 { return float64(e.listener.EvictedCount()) })
	gauge("penstock_client_connections_rejected_total", func() float64 { return float64(e.listener.RejectedCount()) })
	gauge(`penstock_proxy_headers_refused_total{reason="missing"}`, func() float64 { return float64(e.listener.ProxyHeaderFailures().Missing) })
	gauge(`penstock_proxy_headers_refused_total{reason="unlisted"}`, func() float64 { return float64(e.listener.ProxyHeaderFailures().Unlisted) })
	gauge(`penstock_proxy_headers_refused_total{reason="invalid"}`, func() float64 { return float64(e.listener.ProxyHeaderFailures().Invalid) })
	gauge("penstock_calls_yielded_total", func() float64 { return float64(e.reloads.RunningSnapshot().Routes.Claims.RefusedForClaimsCount()) })
	gauge("penstock_draining", func() float64 { return boolToFloat(e.shutdown.draining.Load()) })
	for _, where := range guard.PanicPlaces() {
		gauge("penstock_panics_total{where="+strconv.Quote(where)+"}",
			func() float64 { return float64(e.guard.PanicCount(where)) })
	}
	if e.opts.LogDropped != nil {
		gauge("penstock_log_dropped_total", func() float64 { return float64(e.opts.LogDropped()) })
	}
	if e.services.Tracer != nil {
		gauge("penstock_spans_dropped_total", func() float64 { return float64(e.services.Tracer.Dropped()) })
	}
	gauge("penstock_config_generation", func() float64 { return float64(e.reloads.RunningSnapshot().Version) })
	gauge("penstock_reload_success_timestamp_seconds",
		func() float64 { return float64(e.reloads.RunningSnapshot().Since.UnixMilli()) / 1000 })
	gauge("penstock_reload_successful", func() float64 {
		r := e.reloads.LastResult()
		return boolToFloat(r == nil || r.OK)
	})
	gauge("penstock_reload_duration_seconds", func() float64 {
		if r := e.reloads.LastResult(); r != nil {
			return r.Seconds
		}
		return 0
	})
	gauge("go_gc_cycles_total", func() float64 { return float64(process.CollectionCount()) })
	// A zero timestamp would fire expiry alerts.
	if cert := e.opts.Certificate; cert != nil && e.opts.ACME == nil {
		gauge("penstock_certificate_expiry_timestamp_seconds",
			func() float64 { return float64(cert.NotAfter().Unix()) })
		gauge("penstock_certificate_not_before_timestamp_seconds", func() float64 { return notBeforeSeconds(cert) })
	}
	if cert := e.opts.AdminCertificate; cert != nil {
		gauge("penstock_admin_certificate_expiry_timestamp_seconds",
			func() float64 { return float64(cert.NotAfter().Unix()) })
		gauge("penstock_admin_certificate_not_before_timestamp_seconds", func() float64 { return notBeforeSeconds(cert) })
	}
	gauge("penstock_retry_budget", func() float64 {
		_, allowed := e.services.Retries.Usage(time.Now(), e.reloads.RunningSnapshot().Config.Retry.Budget)
		return float64(allowed)
	})
	gauge("penstock_retry_budget_used", func() float64 {
		used, _ := e.services.Retries.Usage(time.Now(), e.reloads.RunningSnapshot().Config.Retry.Budget)
		return float64(used)
	})
}

func (e *Edge) writeMetrics(w io.Writer, openMetrics bool) error {
	write := observe.WritePrometheusText
	if openMetrics {
		write = observe.WriteOpenMetrics
	}
	return write(w, e.metrics.WritePrometheus, e.registry.Write, e.writeComputedMetrics,
		metrics.WriteProcessMetrics, metrics.WriteFDMetrics)
}

// writeComputedMetrics writes the metrics that are computed for each scrape. They come from the
// running configuration, so a removed model leaves no series behind.
func (e *Edge) writeComputedMetrics(w io.Writer) {
	var b bytes.Buffer
	observe.AppendSample(&b, "penstock_build_info", "1", "version", build.Version(), "go", runtime.Version())
	for _, g := range e.reloads.VersionsInUse() {
		observe.AppendSample(&b, "penstock_config_generation_calls_inflight", strconv.FormatInt(g.Calls(), 10),
			"generation", strconv.FormatUint(g.Version, 10))
	}
	s, now := e.reloads.RunningSnapshot(), time.Now()
	busy, running := call.CountInFlightCalls(e.listener)
	e.services.Calls.AppendKeyMetrics(&b, running)
	for i := range s.Models {
		m := &s.Models[i]
		idle := 0.0
		if id := m.Config.ID; busy[id] == 0 {
			idle = now.Sub(e.services.Calls.LastEndTime(id)).Seconds()
		}
		observe.AppendSample(&b, "penstock_model_idle_seconds", strconv.FormatFloat(idle, 'f', 3, 64), "model", m.Config.ID)
		observe.AppendSample(&b, "penstock_model_ready", strconv.Itoa(int(boolToFloat(m.Route.IsReady(now)))), "model",
			m.Config.ID)
		e.appendTierMetrics(&b, m, now)
		appendArmMetrics(&b, m, e.services.Calls)
		appendShadowMetrics(&b, m, e.services.Calls)
		for _, to := range m.Config.Fallback {
			observe.AppendSample(&b, "penstock_fallback_calls_total",
				strconv.FormatInt(e.services.Calls.FallbackCalls(m.Config.ID, to), 10), "model", m.Config.ID, "to", to)
		}
		if m.Queue != nil {
			observe.AppendSample(&b, "penstock_model_queue_waiting", strconv.Itoa(m.Queue.WaitingCallCount()), "model",
				m.Config.ID)
			observe.AppendSample(&b, "penstock_model_queue_limit", strconv.Itoa(m.Config.Queue.Depth), "model",
				m.Config.ID)
		}
	}
	e.services.Calls.AppendChoiceMetrics(&b)
	appendClassMetrics(&b, s, e.services)
	for _, d := range config.CountDiscoveredModels(s.Config) {
		observe.AppendSample(&b, "penstock_discovered_models", strconv.Itoa(d.Models), "upstream", d.Upstream)
		observe.AppendSample(&b, "penstock_discovered_models_left_out", strconv.Itoa(d.LeftOut), "upstream", d.Upstream)
	}
	for _, i := range issuerStatuses(e.reloads)(now) {
		observe.AppendSample(&b, "penstock_issuer_keys", strconv.Itoa(i.Keys), "issuer", i.Name)
		if i.Age >= 0 {
			observe.AppendSample(&b, "penstock_issuer_fetched_timestamp_seconds",
				strconv.FormatFloat(float64(now.UnixMilli())/1000-i.Age, 'f', 0, 64), "issuer", i.Name)
		}
		observe.AppendSample(&b, "penstock_issuer_fetch_failures_total", strconv.FormatUint(i.Failures, 10), "issuer", i.Name)
	}
	appendCertificateMetrics(&b, e.opts.ACME)
	_, _ = w.Write(b.Bytes())
}

// appendClassMetrics writes the metrics of all call classes except the first.
func appendClassMetrics(b *bytes.Buffer, s *snapshot.Snapshot, of *call.Services) {
	for rank := 1; rank < len(s.Floors); rank++ {
		name := config.EffectiveClasses(s.Config)[rank].Name
		for i := range s.Models {
			m := &s.Models[i]
			calls := strconv.FormatInt(of.Calls.ClassCalls(m.Config.ID, name), 10)
			observe.AppendSample(b, "penstock_class_calls_total", calls, "class", name, "model", m.Config.ID)
			if m.Queue != nil {
				waiting := strconv.Itoa(m.Queue.WaitingInRank(rank))
				observe.AppendSample(b, "penstock_class_queue_waiting", waiting, "class", name, "model", m.Config.ID)
			}
		}
	}
}

func (e *Edge) appendTierMetrics(b *bytes.Buffer, m *snapshot.Model, now time.Time) {
	tiers, id, serving := m.Route.Tiers, m.Config.ID, -1
	if tiers == nil {
		return
	}
	if t := routing.ServingTier(m.Route, now); t != nil {
		serving = t.Targets()[0].Tier
	}
	observe.AppendSample(b, "penstock_model_tier", strconv.Itoa(serving), "model", id)
	for _, t := range tiers[1:] {
		tier := t.Targets()[0].Tier
		observe.AppendSample(b, "penstock_overflow_calls_total", strconv.FormatInt(e.services.Calls.TierCalls(id, tier), 10),
			"model", id, "tier", strconv.Itoa(tier))
	}
}

func appendArmMetrics(b *bytes.Buffer, m *snapshot.Model, calls *observe.Calls) {
	arms, id := routing.ListArms(m.Route), m.Config.ID
	if arms == nil {
		return
	}
	for _, a := range append(arms, routing.Arm{Name: observe.NoArm}) {
		ended, missed, refused := calls.ArmCallTotals(id, a.Name)
		observe.AppendSample(b, "penstock_arm_calls_total", strconv.FormatInt(ended, 10), "model", id, "arm", a.Name)
		observe.AppendSample(b, "penstock_arm_missed_calls_total", strconv.FormatInt(missed, 10), "model", id, "arm", a.Name)
		observe.AppendSample(b, "penstock_arm_refused_calls_total", strconv.FormatInt(refused, 10),
			"model", id, "arm", a.Name)
	}
}

func appendShadowMetrics(b *bytes.Buffer, m *snapshot.Model, calls *observe.Calls) {
	if m.Shadow == nil {
		return
	}
	from, to := m.Config.ID, m.Shadow.Config.ID
	s := observe.ShadowCounts(calls, from, to)
	for end, n := range s.Ended {
		observe.AppendSample(b, "penstock_shadow_calls_total", strconv.FormatInt(n, 10),
			"model", from, "to", to, "result", observe.ShadowOutcome(end).String())
	}
	for i, n := range [...]int64{s.Prompt, s.Completion} {
		observe.AppendSample(b, "penstock_shadow_tokens_total", strconv.FormatInt(n, 10),
			"model", from, "to", to, "kind", [...]string{"prompt", "completion"}[i])
	}
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// notBeforeSeconds returns the time at which a certificate becomes valid, in Unix seconds.
func notBeforeSeconds(c *listen.Certificate) float64 {
	from, _ := c.ValidityPeriod()
	return float64(from.Unix())
}
