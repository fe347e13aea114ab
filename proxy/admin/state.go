package admin

import (
	"time"

	"penstock/proxy/build"
	"penstock/proxy/reload"
	"penstock/proxy/status"
	"penstock/upstreams"
)

// status gathers what the status page shows.
func (s *Server) status() *status.Status {
	snap, now, all := s.opts.Reloads.Running(), time.Now(), s.opts.Set.All()
	queues := map[string]*status.Queue{}
	for i := range snap.Models {
		if m := &snap.Models[i]; m.Queue != nil {
			queues[m.Config.ID] = &status.Queue{
				Waiting: m.Queue.Waiting(), Depth: m.Config.Queue.Depth,
				Wait: m.Config.Queue.Wait.D().Seconds(),
			}
		}
	}
	out := status.Of(&status.Input{
		Routes: snap.Routes, Upstreams: all, Calls: s.opts.Calls,
		Flights: s.opts.InFlight(now), Queues: queues, Now: now,
	})
	out.Build, out.Version, out.Since, out.Started = build.Version(), snap.Version, snap.Since, s.opts.Started
	out.Panicking, out.Unsaved = s.opts.Guard.Storm(now), s.opts.Calls.Usage.Unsaved().Seconds()
	out.Draining, out.Connections = s.opts.Draining(), s.opts.Connections()
	out.Operable = snap.Config.Admin.Token != ""
	out.Retries.Used, out.Retries.Allowed = s.opts.Retries.State(now, snap.Config.Retry.Budget)
	for _, g := range s.opts.Reloads.Versions() {
		out.Generations = append(out.Generations, status.Generation{
			Version: g.Version, Since: g.Since,
			Calls: g.Calls(),
		})
	}
	out.Certificate = status.CertificateOf(s.opts.Certificate.Valid())
	out.LastReload = pageOf(s.opts.Reloads.Last())
	out.Fleet = s.opts.Fleet.State()
	for _, d := range s.opts.Set.Discoveries(now) {
		out.Discoveries = append(out.Discoveries, status.Discovery{Discovery: d})
	}
	out.Issuers = s.opts.Issuers(now)
	for i, u := range all {
		if s.opts.Board != nil && u.Mode() != upstreams.ModeReady {
			setting, _ := s.opts.Board.Mode(u.ID())
			out.Upstreams[i].ModeWho = setting.Who
		}
	}
	out.Judge()
	return out
}

// pageOf returns what the status page shows of r; nil when there was no reload.
func pageOf(r *reload.Result) *status.Reload {
	if r == nil {
		return nil
	}
	p := &status.Reload{
		At: r.At, Source: r.Source, OK: r.OK, Unchanged: r.Unchanged, KeysInForce: r.KeysInForce, Version: r.Version,
		Changes: r.Changes, Restart: r.Restart, Problems: r.Problems, Seconds: r.Seconds,
	}
	for _, c := range r.Capacity {
		p.Capacity = append(p.Capacity, c.String())
	}
	return p
}
