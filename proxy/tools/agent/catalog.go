package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy/front/plaintext"
	"penstock/upstreams/http1"
)

type model struct {
	ID                 string // id, or the requested alias
	Name               string
	Kind               string
	SupportedEndpoints []string `json:"supported_endpoints"`
	InputModalities    []string `json:"input_modalities"`
	SupportedFeatures  []string `json:"supported_features"`
	ContextLength      int      `json:"context_length"`
	MaxOutputLength    int      `json:"max_output_length"`
	IsReady            bool     `json:"is_ready"`
	ModelInfo          struct {
		Efforts []string `json:"supported_reasoning_efforts"`
	} `json:"model_info"`
	aliasOf string // id of the model if ID is an alias; otherwise empty
}

func (m *model) catalogID() string {
	if m.aliasOf != "" {
		return m.aliasOf
	}
	return m.ID
}

// maxOutputTokens returns the maximum length of an answer. This is the model's limit or, if that is
// unknown, a quarter of the context length.
func (m *model) maxOutputTokens() int {
	if m.MaxOutputLength > 0 {
		return m.MaxOutputLength
	}
	return min(m.ContextLength/4, 32000)
}

func (m *model) takesImages() bool { return slices.Contains(m.InputModalities, "image") }

func (m *model) supportsReasoning() bool {
	return slices.ContainsFunc(m.ModelInfo.Efforts, func(e string) bool { return e != "none" })
}

// supportsEndpoint reports whether the model can be used by an agent that sends requests with tools
// to the endpoint.
func (m *model) supportsEndpoint(endpoint string) bool {
	unknown := m.SupportedFeatures == nil || slices.Equal(m.SupportedFeatures, []string{"retained"})
	tools := unknown || slices.Contains(m.SupportedFeatures, "tools")
	return m.Kind == config.ModelKindChat && tools && slices.Contains(m.SupportedEndpoints, endpoint)
}

type catalog struct {
	models []model
	codex  json.RawMessage // list of all models, for Codex
}

const catalogTimeout = 5 * time.Second

// fetchCatalog requests the catalog from the edge at base, which must not end in /v1. key may be
// empty. If the catalog does not list the wanted model but the edge resolves its name, fetchCatalog
// adds an entry for this name.
func fetchCatalog(ctx context.Context, base, key, wanted string) (*catalog, error) {
	transport, err := http1.NewTransport(http1.TransportOptions{Upstream: base, URL: base, APIKey: key}.ProbeOptions())
	if err != nil {
		return nil, fmt.Errorf("reach the edge at %s: %w", base, err)
	}
	defer transport.Close()
	get := transport.PageFetcher()
	page, err := get(ctx, "/v1/models?client_version=penstock", catalogTimeout)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the edge at %s: %w; --url is the address of its API", base, err)
	case page.Status == 401 && key == "":
		return nil, fmt.Errorf("the edge at %s asks for a key: put one into the environment variable that --key-env names", base)
	case page.Status == 401:
		return nil, fmt.Errorf("the edge at %s refuses the key of the environment variable that --key-env names", base)
	case page.Status != 200:
		return nil, fmt.Errorf("GET %s/v1/models answers %d: --url is the address of an edge's API", base, page.Status)
	}
	var list struct {
		Data   []model         `json:"data"`
		Models json.RawMessage `json:"models"`
	}
	if json.Unmarshal(page.Body, &list) != nil || list.Models == nil {
		return nil, fmt.Errorf("%s has no catalog for agents: it is no edge, or one of an older version", base)
	}
	c := &catalog{list.Data, list.Models}
	if wanted == "" || slices.ContainsFunc(c.models, func(m model) bool { return m.ID == wanted }) {
		return c, nil
	}
	page, err = get(ctx, "/v1/models/"+url.PathEscape(wanted), catalogTimeout)
	if err != nil {
		return nil, fmt.Errorf("ask the edge at %s: %w", base, err)
	}
	var m model
	if page.Status == 200 && json.Unmarshal(page.Body, &m) == nil && m.ID != "" {
		m.aliasOf, m.ID, m.Name = m.ID, wanted, m.Name+" ("+wanted+")"
		c.models = append(c.models, m)
	}
	return c, nil
}

func edgeSupportsWebSocket(ctx context.Context, base, key string) bool {
	ctx, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/responses", http.NoBody)
	if err != nil {
		return false
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		r.Header.Set(name, value)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	// Like the request for the catalog, this request does not use a proxy.
	transport := http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusSwitchingProtocols
}

// chooseModels returns the models that an agent can use. The wanted model comes first. If wanted is
// empty, a ready model comes first.
func (c *catalog) chooseModels(endpoint, wanted string) ([]model, error) {
	var fit []model
	var names []string
	for _, m := range c.models {
		if m.supportsEndpoint(endpoint) {
			fit = append(fit, m)
			names = append(names, plaintext.CleanLine(m.ID))
		}
	}
	switch {
	case len(fit) == 0:
		return nil, errors.New("the edge has no chat model with tools for this agent")
	case wanted == "":
		return moveToFront(fit, max(0, slices.IndexFunc(fit, func(m model) bool { return m.IsReady }))), nil
	}
	i := slices.IndexFunc(fit, func(m model) bool { return m.ID == wanted })
	if i < 0 {
		hint := suggest.ChoiceHint(wanted, names)
		return nil, fmt.Errorf("the edge has no model %q for this agent%s", plaintext.CleanLine(wanted), hint)
	}
	return moveToFront(fit, i), nil
}

func moveToFront(models []model, i int) []model {
	m := models[i]
	return slices.Insert(slices.Delete(models, i, i+1), 0, m)
}

func parseBaseURL(address string) (string, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(strings.TrimSuffix(strings.TrimRight(address, "/"), "/v1"))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return "", errors.New("--url is no address of an edge: write http://HOST:PORT")
	}
	return u.String(), nil
}
