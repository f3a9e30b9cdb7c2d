package stripe

import (
	"slices"
	"strings"
)

// moneyTopics are the event types about payments that this program has met. Read only.
var moneyTopics = []string{
	"charge.captured", "charge.expired", "charge.failed", "charge.pending", "charge.refunded", "charge.succeeded", "charge.updated",
	"charge.refund.updated",
	"charge.dispute.closed", "charge.dispute.created", "charge.dispute.funds_reinstated", "charge.dispute.funds_withdrawn", "charge.dispute.updated",
	"checkout.session.async_payment_failed", "checkout.session.async_payment_succeeded", "checkout.session.completed", "checkout.session.expired",
	"invoice.created", "invoice.deleted", "invoice.finalization_failed", "invoice.finalized", "invoice.marked_uncollectible", "invoice.overdue",
	"invoice.overpaid", "invoice.paid", "invoice.payment_action_required", "invoice.payment_attempt_required", "invoice.payment_failed",
	"invoice.payment_succeeded", "invoice.sent", "invoice.upcoming", "invoice.updated", "invoice.voided", "invoice.will_be_due",
	"invoice_payment.paid",
	"payment_intent.amount_capturable_updated", "payment_intent.canceled", "payment_intent.created", "payment_intent.partially_funded",
	"payment_intent.payment_failed", "payment_intent.processing", "payment_intent.requires_action", "payment_intent.succeeded",
	"radar.early_fraud_warning.created", "radar.early_fraud_warning.updated",
	"refund.created", "refund.failed", "refund.updated",
	"review.closed", "review.opened",
}

// otherTopics begin the event types that are never about an order. Read only.
var otherTopics = []string{
	"account.", "application_fee.", "balance.", "balance_settings.", "billing.", "billing_portal.", "capability.", "cash_balance.",
	"climate.", "coupon.", "credit_note.", "customer.", "customer_cash_balance_transaction.", "entitlements.", "file.",
	"financial_connections.", "identity.", "invoiceitem.", "issuing_authorization.", "issuing_card.", "issuing_cardholder.",
	"issuing_dispute.", "issuing_personalization_design.", "issuing_token.", "issuing_transaction.", "mandate.", "payment_link.",
	"payment_method.", "payout.", "person.", "plan.", "price.", "product.", "promotion_code.", "quote.", "reporting.", "reserve.",
	"setup_intent.", "sigma.", "sku.", "source.", "subscription_schedule.", "tax.", "tax_rate.", "terminal.", "test_helpers.", "topup.",
	"transfer.", "treasury.", "v2.billing.", "v2.core.", "v2.money_management.",
}

// changeTopics are the event types that a sweep lists; Stripe takes at most 20. Any
// change of a payment that we would record is told by one of them. Read only.
var changeTopics = []string{
	"payment_intent.created", "payment_intent.processing", "payment_intent.requires_action", "payment_intent.amount_capturable_updated",
	"payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.canceled",
	"charge.succeeded", "charge.failed", "charge.captured", "charge.expired", "charge.refunded",
	"refund.created", "refund.updated", "refund.failed",
	"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed",
	"checkout.session.completed", "checkout.session.expired",
}

// aboutMoney tells whether a topic, without a thin event's prefix, is a known one
// about payments.
func aboutMoney(topic string) bool { return slices.Contains(moneyTopics, topic) }

// aboutOther tells whether a topic is a known one that is never about an order.
func aboutOther(topic string) bool {
	return slices.ContainsFunc(otherTopics, func(prefix string) bool { return strings.HasPrefix(topic, prefix) })
}
