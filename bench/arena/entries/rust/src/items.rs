//! The things that the application has to show, and their JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Serialize, Deserialize)]
pub struct Rating {
    pub score: i32,
    pub count: i32,
}

#[derive(Serialize, Deserialize)]
pub struct Item {
    pub id: i32,
    pub name: String,
    pub category: String,
    pub price: i32,
    pub quantity: i32,
    pub active: bool,
    pub tags: Value,
    pub rating: Rating,
}

/// An item with a total. Its fields are listed, because serde's `flatten` is slow.
#[derive(Serialize)]
pub struct Priced<'a> {
    id: i32,
    name: &'a str,
    category: &'a str,
    price: i32,
    quantity: i32,
    active: bool,
    tags: &'a Value,
    rating: &'a Rating,
    total: i32,
}

impl<'a> Priced<'a> {
    pub fn new(item: &'a Item, factor: i32) -> Self {
        Priced {
            id: item.id,
            name: &item.name,
            category: &item.category,
            price: item.price,
            quantity: item.quantity,
            active: item.active,
            tags: &item.tags,
            rating: &item.rating,
            total: item.price * item.quantity * factor,
        }
    }
}

#[derive(Serialize)]
pub struct Listed<T> {
    items: Vec<T>,
    count: usize,
}

impl<T> Listed<T> {
    pub fn new(items: Vec<T>) -> Self {
        let count = items.len();
        Listed { items, count }
    }
}

#[derive(Serialize)]
pub struct Page {
    pub items: Vec<Item>,
    pub total: usize,
    pub page: i64,
    pub limit: i64,
}
