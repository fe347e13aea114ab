package status

import (
	"time"

	"penstock/routing"
	"penstock/upstreams"
)

// Status is the state of the edge at one moment, as JSON.
type Status struct {
	Version    uint64             `json:"version"` // of the running configuration
	Started    time.Time          `json:"started"`
	Now        time.Time          `json:"now"`
	Draining   bool               `json:"draining"`
	InFlight   int64              `json:"in_flight"` // calls
	LastReload any                `json:"last_reload"`
	Upstreams  []upstreams.Status `json:"upstreams"`
	Models     []Model            `json:"models"`
}

// Model is one route.
type Model struct {
	ID      string          `json:"id"`
	Ready   bool            `json:"ready"`
	Pools   map[string]Pool `json:"pools"`
	Targets []Target        `json:"targets"`
}

// Pool is the capacity of one pool over the targets that may take calls.
type Pool struct {
	Active    int `json:"active"`
	Total     int `json:"total"`
	Available int `json:"available"`
}

// Target is one upstream of a route.
type Target struct {
	Upstream string `json:"upstream"`
	Served   string `json:"served"`
	Eligible bool   `json:"eligible"`
	Why      string `json:"why,omitempty"` // why it is not eligible
}

// Of describes the routes of t and the upstreams.
func Of(t *routing.Table, ups []*upstreams.Upstream, now time.Time) *Status {
	s := &Status{Now: now, Upstreams: []upstreams.Status{}, Models: []Model{}}
	for _, u := range ups {
		s.Upstreams = append(s.Upstreams, u.Status(now))
	}
	for _, r := range t.Routes() {
		s.Models = append(s.Models, modelOf(r, now))
	}
	return s
}

func modelOf(r *routing.Route, now time.Time) Model {
	m := Model{ID: r.ID, Ready: r.Ready(now), Pools: map[string]Pool{}}
	for _, p := range []upstreams.Pool{upstreams.PoolText, upstreams.PoolVision, upstreams.PoolAudio} {
		c := r.Capacity(p, now)
		m.Pools[p.String()] = Pool{Active: c.Active, Total: c.Total, Available: c.Available}
	}
	for _, t := range r.Targets() {
		why := t.Upstream.Obstacle(t.Served, now)
		m.Targets = append(m.Targets, Target{Upstream: t.Upstream.Label(), Served: t.Served, Eligible: why == "", Why: why})
	}
	return m
}
