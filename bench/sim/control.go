package sim

import (
	"encoding/json"
	"net/http"
)

// control answers /sim/…: the simulator's own pages, open to everybody who can connect.
func (e *Engine) control(x *exchange) {
	what := x.req.method + " " + x.req.path
	var err error
	var out any = map[string]bool{"ok": true}
	switch what {
	case "GET /sim/stats":
		out = e.Stats()
	case "GET /sim/requests":
		out = e.Recorded()
	case "GET /sim/faults":
		x.reply(http.StatusOK, "text/plain; charset=utf-8", []byte(faultsText()))
		return
	case "POST /sim/fault":
		// One fault or a list of them.
		var list []Fault
		if err = json.Unmarshal(x.req.body, &list); err != nil {
			var one Fault
			if err = json.Unmarshal(x.req.body, &one); err == nil {
				list = []Fault{one}
			}
		}
		if err == nil {
			err = e.schedule.load(list)
		}
	case "POST /sim/reset":
		e.Reset()
	case "POST /sim/health":
		var in struct {
			Healthy bool `json:"healthy"`
		}
		if err = json.Unmarshal(x.req.body, &in); err == nil {
			e.SetHealthy(in.Healthy)
		}
	case "POST /sim/models":
		var in struct {
			Models []string `json:"models"`
		}
		if err = json.Unmarshal(x.req.body, &in); err == nil {
			e.SetModels(in.Models...)
		}
	case "POST /sim/slots":
		var in struct {
			Slots int `json:"slots"`
		}
		if err = json.Unmarshal(x.req.body, &in); err == nil {
			e.SetSlots(in.Slots)
		}
	case "POST /sim/event":
		var in struct {
			Do string `json:"do"`
		}
		if err = json.Unmarshal(x.req.body, &in); err == nil {
			var a Action
			if a, err = ParseAction(in.Do); err == nil {
				defer e.Do(a) // after the answer: a crash takes this connection, too
			}
		}
	case "POST /sim/drop":
		in := struct {
			Share float64 `json:"share"`
			Reset bool    `json:"reset"`
		}{Share: 1}
		if err = json.Unmarshal(x.req.body, &in); err == nil {
			out = map[string]int{"dropped": e.drop(in.Share, in.Reset, x.c)}
		}
	default:
		if x.req.path == "/sim/redirected" {
			e.counters.followed.Add(1)
			x.fail(apiError{status: 400, message: "a redirect was followed"})
			return
		}
		x.fail(apiError{status: 404, message: "no such control: " + what})
		return
	}
	if err != nil {
		x.fail(apiError{status: 400, message: "sim: " + err.Error()})
		return
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	x.reply(http.StatusOK, "application/json", append(b, '\n'))
}
