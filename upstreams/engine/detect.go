package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/config"
	"penstock/config/unixsocket"
	"penstock/upstreams/http1"
)

// Recognise detects the engine from its pages. If engine is "auto", it considers all profiles.
// Otherwise it considers only the variants of the named profile. If there are no profiles to
// consider, it returns nil. If no profile matches, it returns the named profile, or the generic
// profile for "auto". It returns an error if the engine does not respond.
func (p *Profiles) Recognise(
	ctx context.Context, get http1.GetPageFunc, timeout time.Duration, engine string,
) (*Profile, error) {
	candidates := p.detectionCandidates(engine)
	if len(candidates) == 0 {
		return nil, nil
	}
	profile, err := recognise(ctx, cachePages(get), timeout, candidates)
	if profile == nil && err == nil {
		profile = p.FallbackProfile(engine)
	}
	return profile, err
}

// recognise returns the first candidate with a detection sign that matches. It returns nil if no
// candidate matches, and an error if the first page cannot be read.
func recognise(ctx context.Context, get http1.GetPageFunc, timeout time.Duration, candidates []*Profile) (*Profile, error) {
	asked := false
	for _, profile := range candidates {
		for i := range profile.spec.Detect {
			sign := &profile.spec.Detect[i]
			answer, err := get(ctx, sign.Path, timeout)
			if err != nil && !asked {
				return nil, err
			}
			asked = true
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err == nil && matchesSign(sign, &answer) {
				return profile, nil
			}
		}
	}
	return nil, nil
}

func matchesSign(sign *config.EngineSign, p *http1.Page) bool {
	switch {
	case p.Status != cmp.Or(sign.Status, 200):
		return false
	case slices.ContainsFunc(sign.Contains, func(part string) bool { return !bytes.Contains(p.Body, []byte(part)) }):
		return false
	case sign.Field == "":
		return true
	}
	content, err := parseJSON(p.Body)
	if err != nil {
		return false
	}
	for v := range fieldValues(content, sign.Field) {
		if sign.Equals == "" || fmt.Sprint(v) == sign.Equals {
			return true
		}
	}
	return false
}

// Detection describes a detected engine.
type Detection struct {
	URL        string   `json:"url"`
	Profile    *Profile `json:"-"`      // never nil; the generic profile if Recognised is false
	Engine     string   `json:"engine"` // the profile's name
	Recognised bool     `json:"recognised"`
	Version    string   `json:"version,omitempty"`
	Keyed      bool     `json:"keyed"` // an API key was sent
	// Refused is 401 or 403 if the engine refused the model list, and 0 otherwise.
	Refused int         `json:"refused,omitempty"`
	Health  int         `json:"health"` // status of the profile's health page; 0 if there was no response
	Healthy bool        `json:"healthy"`
	Models  []ModelInfo `json:"models"`
	Slots   int         `json:"slots"` // number of concurrent requests; 0 if not reported
	// Number of models that fit in memory; 0 if not reported.
	Residents  int         `json:"residents,omitempty"`
	Load       *EngineLoad `json:"load,omitempty"`
	LoadPath   string      `json:"load_path,omitempty"`     // the page that contained Load
	CountsPath string      `json:"progress_path,omitempty"` // the page that contained progress counters

	TriedModel string         `json:"tried_model,omitempty"`
	Tried      []FeatureTrial `json:"tried,omitempty"` // trials sent by RunTrials

	timeouts *config.Timeouts // used in the report; if nil, the defaults are used
}

// detectTimeout is the timeout of each page request in Detect.
const detectTimeout = 3 * time.Second

// Detect detects the engine at a base URL and reads its version, models, capacity and load. The URL
// may omit the scheme or end with /v1. The API key is sent only if apiKey is not empty. If the
// engine does not respond, the error is an *http1.Failure. Detect sends about ten small GET
// requests, over one connection if the engine keeps the connection alive.
func Detect(ctx context.Context, url, apiKey string, profiles *Profiles) (Detection, error) {
	if !unixsocket.IsAddress(url) && !strings.Contains(url, "://") {
		url = "http://" + url
	}
	if base, _, found := strings.Cut(url+"/", "/v1/"); found {
		url = base
	}
	return detect(ctx, url, apiKey, profiles, detectTimeout)
}

func detect(ctx context.Context, url, apiKey string, profiles *Profiles, timeout time.Duration) (Detection, error) {
	base, err := http1.NormalizeURL(url)
	if err != nil {
		return Detection{}, err
	}
	transport, err := http1.NewTransport(http1.TransportOptions{Upstream: base, URL: base, APIKey: apiKey}.ProbeOptions())
	if err != nil {
		return Detection{}, fmt.Errorf("reach %s: %w", base, err)
	}
	defer transport.Close()
	get := cachePages(transport.PageFetcher())
	d := Detection{URL: base, Keyed: apiKey != ""}
	if d.Profile, err = recognise(ctx, get, timeout, profiles.inDetectionOrder); err != nil {
		return Detection{}, err
	}
	if d.Recognised = d.Profile != nil; !d.Recognised {
		d.Profile = profiles.genericProfile()
	}
	d.Engine = d.Profile.Name()
	r := PageReader{get, d.Profile, timeout}
	health := d.Profile.Health()
	if answer, err := get(ctx, health.Path, timeout); err == nil {
		d.Health, d.Healthy = answer.Status, health.IsHealthy(answer.Status)
	}
	d.Version = r.ReadVersion(ctx)
	if page := d.Profile.ModelsPage(); page != "" {
		d.Models, _ = r.ReadModels(ctx, nil)
		if answer, err := get(ctx, page, timeout); err == nil && (answer.Status == 401 || answer.Status == 403) {
			d.Refused = answer.Status
		}
	}
	d.Slots, _, _ = r.ReadSlots(ctx)
	d.Residents, _ = r.ReadMaxResidents(ctx)
	if load, _, path, ok := r.ReadLoad(ctx, 0); ok {
		d.Load, d.LoadPath = &load, path
	}
	if _, path, ok := r.ReadCounters(ctx); ok {
		d.CountsPath = path
	}
	return d, ctx.Err()
}

// discoverTimeout is the timeout of each page request in Discover. An engine on loopback that is
// ready responds immediately.
const discoverTimeout = 300 * time.Millisecond

// maxDiscoverTime is the time limit of a Discover call. It can be short, because most ports are
// closed and refuse connections immediately.
const maxDiscoverTime = 2 * time.Second

// Discover checks all addresses (host:port, see Profiles.UsualAddresses) in parallel and returns
// the engines that it finds, in the order of their addresses. It omits servers that match no
// profile and list no models.
func Discover(ctx context.Context, addresses []string, profiles *Profiles) []Detection {
	ctx, cancel := context.WithTimeout(ctx, maxDiscoverTime)
	defer cancel()
	found := make([]*Detection, len(addresses))
	var wait sync.WaitGroup
	for i, address := range addresses {
		wait.Go(func() {
			d, err := detect(ctx, "http://"+address, "", profiles, discoverTimeout)
			if err != nil || !d.Recognised && len(d.Models) == 0 {
				return
			}
			found[i] = &d
		})
	}
	wait.Wait()
	var out []Detection
	for _, f := range found {
		if f != nil {
			out = append(out, *f)
		}
	}
	return slices.Clip(out)
}
