package catalog

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"penstock/config"
	"penstock/routing"
)

// Public is the scope of a request without a key.
const Public = ""

// maxScopes bounds how many rendered lists are kept.
const maxScopes = 256

// Catalog renders the models of one configuration. It is safe for concurrent use.
type Catalog struct {
	models []config.Model
	routes []*routing.Route
	static []entry

	mu    sync.Mutex // one renderer at a time: pollers that come together get one page
	pages *lru.Cache[string, *Page]
}

// Page is a rendered list. It is immutable and shared.
type Page struct {
	Body   []byte
	ETag   string // as in the header; weak, since pages that differ in updated_at alone have the same
	second int64
}

// New prepares the catalog of f over its routes.
func New(f *config.File, t *routing.Table, started time.Time) (*Catalog, error) {
	pages, err := lru.New[string, *Page](maxScopes)
	if err != nil {
		return nil, err
	}
	c := &Catalog{models: f.Models, routes: t.Routes(), pages: pages}
	for i := range f.Models {
		c.static = append(c.static, newEntry(&f.Models[i], started.Unix()))
	}
	return c, nil
}

// List returns the list of the models that allow admits. The page of a scope is rendered at most
// once a second.
func (c *Catalog) List(scope string, allow func(id string) bool, now time.Time) (*Page, error) {
	second := now.Unix()
	if p, ok := c.pages.Get(scope); ok && p.second == second {
		return p, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.pages.Get(scope); ok && p.second == second {
		return p, nil
	}
	list := struct {
		Object string  `json:"object"`
		Data   []entry `json:"data"`
	}{"list", []entry{}}
	for i := range c.static {
		if allow(c.static[i].ID) {
			list.Data = append(list.Data, c.at(i, now))
		}
	}
	p, err := newPage(list, second)
	if err != nil {
		return nil, err
	}
	c.pages.Add(scope, p)
	return p, nil
}

// Model returns the entry of the model at a route's index.
func (c *Catalog) Model(index int, now time.Time) (*Page, error) {
	return newPage(c.at(index, now), now.Unix())
}

func (c *Catalog) at(i int, now time.Time) entry {
	e := c.static[i]
	e.live(&c.models[i], c.routes[i], now)
	return e
}

func newPage(v any, second int64) (*Page, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return &Page{Body: b.Bytes(), ETag: tag(b.Bytes(), second), second: second}, nil
}

// tag makes the ETag of a page: a hash of all but the time at which it was rendered. A client that
// asks again is then told that nothing has changed, instead of getting a page with another second
// in it.
func tag(page []byte, second int64) string {
	stamp := strconv.AppendInt([]byte(`"updated_at":`), second, 10)
	sum := xxhash.New()
	for found := true; found; {
		var part []byte
		part, page, found = bytes.Cut(page, stamp)
		_, _ = sum.Write(part)
	}
	return `W/"` + strconv.FormatUint(sum.Sum64(), 16) + `"`
}
