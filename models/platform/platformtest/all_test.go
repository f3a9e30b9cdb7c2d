package platformtest_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/platformtest"
	"counterfoil/models/platform/receiptroller"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/platform/shopify"
	"counterfoil/models/platform/stripe"
)

// now is a time in the middle of a month, in Tokyo too.
func now() time.Time { return time.Date(2026, 11, 15, 3, 0, 0, 0, time.UTC) }

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

// maker drops the concrete type of an adapter's constructor.
func maker[A platform.Adapter](build func(platform.Config) (A, error)) platform.Maker {
	return func(cfg platform.Config) (platform.Adapter, error) {
		a, err := build(cfg)
		if err != nil {
			return nil, err
		}
		return a, nil
	}
}

// about picks the notification of a topic.
func about(topic string, all []sandbox.Notification) platform.Request {
	for _, n := range all {
		if n.Topic == topic {
			return request(n)
		}
	}
	return platform.Request{}
}

func request(n sandbox.Notification) platform.Request {
	return platform.Request{Header: n.Header, Body: n.Body}
}

// wrongToken spoils the token.
func wrongToken(cfg platform.Config) platform.Config {
	cfg.APIToken += "x"
	return cfg
}

func TestReceiptRoller(t *testing.T) {
	t.Parallel()
	const account = "org1"
	build := func(secret string, t time.Time) *sandbox.ReceiptRoller {
		return sandbox.NewReceiptRoller(account, secret, at(t))
	}
	ref := func(path string) models.ObjectRef {
		return models.ObjectRef{Account: account, Kind: "receipt", ID: path}
	}
	platformtest.Run(t, platformtest.Fixture{
		Make: maker(receiptroller.New),
		Config: platform.Config{Account: account, UserName: "console@shop.example", Password: "sandbox-password",
			Settings: map[string]string{"rate": "10000", "currency": "HKD"}},
		Now:     now(),
		Secrets: [2]string{"first-secret", "second-secret"},
		Genuine: func(secret string, t time.Time) platform.Request {
			_, n := build(secret, t).Issue(sandbox.Receipt{Placed: now()})
			return request(n)
		},
		Unknown: func(secret string, t time.Time) platform.Request {
			body := `{"event_id":"evt_1","type":"loyalty.joined","occurred_at":"2026-11-15T03:00:00.000Z","data":{}}`
			return request(build(secret, t).Sign("loyalty.joined", "evt_1", []byte(body), t))
		},
		Timed:     true,
		Signature: "X-RR-Signature",
		Serve: func(t testing.TB) platformtest.Server {
			p := build("first-secret", now())
			server := httptest.NewServer(p.Handler())
			t.Cleanup(server.Close)
			r, _ := p.Issue(sandbox.Receipt{})
			p.Issue(sandbox.Receipt{})
			return platformtest.Server{URL: server.URL, Switches: p.Switches, Existing: ref(r.Path()), Missing: ref(r.Path() + "x"),
				Since: now().AddDate(0, -2, 0), Until: now()}
		},
		Wrong: func(cfg platform.Config) platform.Config {
			cfg.Password += "x"
			return cfg
		},
		Words: receiptroller.Words(),
	})
}

func TestShopify(t *testing.T) {
	t.Parallel()
	const account, token = "example-shop.myshopify.com", "shpat_sandbox"
	build := func(secret string, t time.Time) *sandbox.Shopify {
		return sandbox.NewShopify(sandbox.ShopifyConfig{Account: account, Secret: secret, Token: token, Now: at(t)})
	}
	ref := func(id int64) models.ObjectRef {
		return models.ObjectRef{Account: account, Kind: "order", ID: sandbox.ShopifyGID(id)}
	}
	platformtest.Run(t, platformtest.Fixture{
		Make:    maker(shopify.New),
		Config:  platform.Config{Account: account, APIToken: token, Settings: map[string]string{"rate": "10000"}},
		Now:     now(),
		Secrets: [2]string{"first-secret", "second-secret"},
		Genuine: func(secret string, t time.Time) platform.Request {
			_, all, err := build(secret, t).CreateOrder(sandbox.ShopifyOrder{})
			if err != nil {
				return platform.Request{}
			}
			return about("orders/create", all)
		},
		Unknown: func(secret string, t time.Time) platform.Request {
			return request(build(secret, t).Notify("parcels/weighed", []byte(`{"id":1}`)))
		},
		Signature: "X-Shopify-Hmac-Sha256",
		Serve: func(t testing.TB) platformtest.Server {
			p := build("first-secret", now())
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			id, _, err := p.CreateOrder(sandbox.ShopifyOrder{})
			if err != nil {
				t.Fatal(err)
			}
			return platformtest.Server{URL: server.URL, Switches: p.Switches, Existing: ref(id), Missing: ref(id + 1000000),
				Since: now().Add(-time.Hour), Until: now().Add(time.Hour)}
		},
		Wrong: wrongToken,
		Words: shopify.Words(),
	})
}

func TestStripe(t *testing.T) {
	t.Parallel()
	const account, key = "acct_own", "sk_test_sandbox"
	build := func(secret string, t time.Time) *sandbox.Stripe {
		return sandbox.NewStripe(account, key, secret, at(t))
	}
	ref := func(id string) models.ObjectRef {
		return models.ObjectRef{Kind: "payment_intent", ID: id} // of the connection's own account
	}
	platformtest.Run(t, platformtest.Fixture{
		Make:    maker(stripe.New),
		Config:  platform.Config{Account: account, APIToken: key, Settings: map[string]string{"rate": "10000"}},
		Now:     now(),
		Secrets: [2]string{"whsec_first", "whsec_second"},
		Genuine: func(secret string, t time.Time) platform.Request {
			_, all := build(secret, t).CreateIntent(1280, "hkd", sandbox.StripeIntent{})
			return about("payment_intent.created", all)
		},
		Unknown: func(secret string, t time.Time) platform.Request {
			body := []byte(`{"id":"evt_unknown","object":"event","type":"parcel.weighed","created":1794711600,"livemode":false,"data":{"object":{"id":"prc_1","object":"parcel"}}}`)
			return platform.Request{Header: build(secret, t).Sign(body), Body: body}
		},
		Timed:     true,
		Signature: "Stripe-Signature",
		Serve: func(t testing.TB) platformtest.Server {
			p := build("whsec_first", now())
			server := httptest.NewServer(p.Handler())
			t.Cleanup(server.Close)
			id, _ := p.CreateIntent(1280, "hkd", sandbox.StripeIntent{})
			if _, err := p.Succeed(id); err != nil {
				t.Fatal(err)
			}
			return platformtest.Server{URL: server.URL, Switches: p.Switches, Existing: ref(id), Missing: ref(id + "x"),
				Since: now().Add(-time.Hour), Until: now().Add(time.Hour)}
		},
		Wrong: wrongToken,
		Words: stripe.Words(),
	})
}
