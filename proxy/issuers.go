package proxy

import (
	"time"

	"penstock/config"
	"penstock/proxy/access/auth/jwks"
	"penstock/proxy/access/auth/jwt"
	"penstock/proxy/operate/status"
	"penstock/proxy/running/reload"
)

func issuerStatuses(r *reload.Reloader) func(now time.Time) []status.Issuer {
	return func(now time.Time) (all []status.Issuer) {
		s := r.RunningSnapshot()
		for i := range s.Config.Issuers {
			all = append(all, issuerStatus(&s.Config.Issuers[i], s.Issued, now))
		}
		return all
	}
}

func issuerStatus(is *config.Issuer, issued *jwks.KeySetKeeper, now time.Time) status.Issuer {
	out := status.Issuer{Name: is.Name, Age: -1}
	url, ok := is.KeySetURL()
	if !ok {
		if set, err := jwt.ParseSet(is.Set); err == nil {
			out.Keys = set.Len()
		}
		return out
	}
	st := issued.Source(url).State()
	out.Keys, out.Failures, out.Trouble = st.Keys, st.Failures, st.Trouble
	if !st.Fetched.IsZero() {
		out.Age = now.Sub(st.Fetched).Seconds()
	}
	return out
}
