package catalog

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"penstock/config"
	"penstock/routing"
)

// PublicScope is the scope for requests without a key.
const PublicScope = ""

// featureRetained is the feature of a model whose calls are copied to an operator's sink (hooks
// with after). If a model does not have this feature, no data from its calls are stored.
const featureRetained = "retained"

const maxCachedPages = 256

// Catalog renders the model lists of one configuration. A Catalog may be used by multiple
// goroutines.
type Catalog struct {
	file   *config.File
	models []config.Model
	routes []*routing.Route
	static []modelEntry
	names  []listedName // names in lists with View.Messages
	strict bool

	mu    sync.Mutex // locked while a page is rendered, so that concurrent requests share the page
	pages *lru.Cache[pageKey, *Page]
}

// pageKey identifies a rendered list. Only complete lists are cached.
type pageKey struct {
	scope                  string
	messages, codex, slots bool
}

// Page is a rendered list or entry. It is immutable and shared.
type Page struct {
	Body           []byte
	ETag           string // weak, because pages that differ only in updated_at have the same ETag
	renderedSecond int64
}

// New returns the catalog for a configuration and its routes.
func New(f *config.File, t *routing.Table, started time.Time) (*Catalog, error) {
	pages, err := lru.New[pageKey, *Page](maxCachedPages)
	if err != nil {
		return nil, err
	}
	c := &Catalog{file: f, models: f.Models, routes: t.Routes(), names: listedNames(f, t), strict: f.Strict, pages: pages}
	for i := range f.Models {
		c.static = append(c.static, newEntry(&f.Models[i], started.Unix()))
	}
	return c, nil
}

// ListPage returns the list for a view. It renders each complete list at most once a second. If the
// requested page does not exist, the error is an *apierr.Error.
func (c *Catalog) ListPage(v *View, now time.Time) (*Page, error) {
	if v.Messages && (v.After != "" || v.Before != "" || v.Limit > 0 && v.Limit < len(c.names)) {
		return c.render(v, now)
	}
	key, second := pageKey{v.Scope, v.Messages, v.Codex, v.Slots}, now.Unix()
	if p, ok := c.pages.Get(key); ok && p.renderedSecond == second {
		return p, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.pages.Get(key); ok && p.renderedSecond == second {
		return p, nil
	}
	p, err := c.render(v, now)
	if err == nil {
		c.pages.Add(key, p)
	}
	return p, err
}

func (c *Catalog) render(v *View, now time.Time) (*Page, error) {
	list := struct {
		Object string `json:"object"`
		Data   []any  `json:"data"` // values of type modelEntry or namedEntry
		Slots  *int   `json:"slots,omitempty"`
		*messagesPage
		*codexPage
	}{Object: "list", Data: []any{}}
	shown := make(map[int]modelEntry, len(c.static)) // keyed by model index
	for i := range c.static {
		if v.Allow(c.static[i].ID) {
			shown[i] = c.entryAt(i, v, now)
			if !v.Messages {
				list.Data = append(list.Data, shown[i])
			}
		}
	}
	if v.Messages {
		names := slices.DeleteFunc(slices.Clone(c.names), func(n listedName) bool { _, ok := shown[n.model]; return !ok })
		names, more, err := v.selectPage(names)
		if err != nil {
			return nil, err
		}
		for i := range names {
			list.Data = append(list.Data, shown[names[i].model].underName(&names[i]))
		}
		list.messagesPage = newMessagesPage(names, more)
	}
	if v.Slots {
		var sum routing.SlotSum
		for i := range shown {
			sum.Add(c.routes[i], poolsOfKind(c.models[i].Kind), now)
		}
		list.Slots = &sum.Total
	}
	if v.Codex {
		list.codexPage = &codexPage{Models: []codexModel{}}
		for i := range c.static {
			if e, ok := shown[i]; ok && e.supportsCodex() {
				list.Models = append(list.Models, newCodexModel(&e, i, c.strict))
			}
		}
	}
	return newPage(list, now.Unix())
}

// ModelPage returns the entry of a model for a view. index is the index of the model's route, and
// name is the name in the request.
func (c *Catalog) ModelPage(name string, index int, v *View, now time.Time) (*Page, error) {
	e := c.entryAt(index, v, now)
	if v.Messages {
		i := slices.IndexFunc(c.names, func(n listedName) bool { return n.id == name })
		if i < 0 { // the name matched a pattern, so the entry has the model's id
			i = slices.IndexFunc(c.names, func(n listedName) bool { return n.model == index })
		}
		return newPage(e.underName(&c.names[i]), now.Unix())
	}
	return newPage(e, now.Unix())
}

func (c *Catalog) entryAt(i int, v *View, now time.Time) modelEntry {
	e := c.static[i]
	if c.file.IsCopied(e.ID, v.Scope, v.Template) {
		e.SupportedFeatures = append(slices.Clone(e.SupportedFeatures), featureRetained)
	}
	e.setLiveMembers(&c.models[i], c.routes[i], now)
	e.SupportedEndpoints = c.servedEndpoints(e.SupportedEndpoints, c.routes[i])
	return e
}

func (c *Catalog) servedEndpoints(listed []string, r *routing.Route) []string {
	targets := r.Targets()
	missing := func(path string) bool {
		i := slices.IndexFunc(config.EngineSpecificEndpoints, func(e config.EngineEndpoint) bool { return e.Path == path })
		return i >= 0 && (c.strict || !slices.ContainsFunc(targets, func(t routing.Target) bool {
			return t.Upstream.Engine().Path(config.EngineSpecificEndpoints[i].AtEngine) != ""
		}))
	}
	return slices.DeleteFunc(slices.Clone(listed), missing)
}

func newPage(v any, second int64) (*Page, error) {
	body, err := encodeJSON(v)
	if err != nil {
		return nil, err
	}
	return &Page{Body: body, ETag: pageETag(body, second), renderedSecond: second}, nil
}

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// pageETag returns the ETag of a page, which is a hash of everything except the rendering time. A
// client that polls therefore gets "not modified" if nothing else has changed.
func pageETag(page []byte, second int64) string {
	stamp := strconv.AppendInt([]byte(`"updated_at":`), second, 10)
	sum := xxhash.New()
	for found := true; found; {
		var part []byte
		part, page, found = bytes.Cut(page, stamp)
		_, _ = sum.Write(part)
	}
	return `W/"` + strconv.FormatUint(sum.Sum64(), 16) + `"`
}
