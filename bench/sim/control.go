package sim

import (
	"encoding/json"
	"net/http"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
)

// serveControlPage serves the simulator's control pages under /sim/. They require no API key.
func serveControlPage(x *exchange) {
	e := x.e
	what := x.req.method + " " + x.req.path
	var err error
	var out any = map[string]bool{"ok": true}
	switch what {
	case "GET /sim/stats":
		out = e.Stats()
	case "GET /sim/requests":
		out = e.Recorded()
	case "GET /sim/faults":
		x.reply(http.StatusOK, "text/plain; charset=utf-8", []byte(fault.HelpText()))
		return
	case "POST /sim/fault":
		// The body is a single fault or a list of faults.
		var list []Fault
		if err = json.Unmarshal(x.req.body, &list); err != nil {
			var one Fault
			if err = json.Unmarshal(x.req.body, &one); err == nil {
				list = []Fault{one}
			}
		}
		if err == nil {
			err = e.faults.SetFaults(list...)
		}
	case "POST /sim/reset":
		e.Reset()
	case "POST /sim/health":
		err = decodeControlBody(x, func(in struct{ Healthy bool }) { e.SetHealthy(in.Healthy) })
	case "POST /sim/models":
		err = decodeControlBody(x, func(in struct{ Models []string }) { e.SetModels(in.Models...) })
	case "POST /sim/slots":
		err = decodeControlBody(x, func(in struct{ Slots int }) { e.SetSlots(in.Slots) })
	case "POST /sim/event":
		var do string
		var a Action
		if err = decodeControlBody(x, func(in struct{ Do string }) { do = in.Do }); err == nil {
			if a, err = ParseAction(do); err == nil {
				// Performed after the response, because a crash also closes this connection.
				defer e.PerformAction(a)
			}
		}
	case "POST /sim/drop":
		in := struct {
			Share float64 `json:"share"`
			Reset bool    `json:"reset"`
		}{Share: 1}
		if err = json.Unmarshal(x.req.body, &in); err == nil {
			out = map[string]int{"dropped": e.server.dropConns(in.Share, in.Reset, x.c)}
		}
	default:
		if x.req.path == "/sim/redirected" {
			e.counters.followedRedirects.Add(1)
			x.replyError(profile.APIError{Status: 400, Message: "a redirect was followed"})
			return
		}
		x.replyError(profile.APIError{Status: 404, Message: "no such control: " + what})
		return
	}
	if err != nil {
		x.replyError(profile.APIError{Status: 400, Message: "sim: " + err.Error()})
		return
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	x.reply(http.StatusOK, "application/json", append(b, '\n'))
}

// decodeControlBody decodes the body of a control request and passes it to use.
func decodeControlBody[T any](x *exchange, use func(T)) error {
	var in T
	if err := json.Unmarshal(x.req.body, &in); err != nil {
		return err
	}
	use(in)
	return nil
}
