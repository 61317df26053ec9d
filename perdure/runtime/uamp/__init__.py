"""What UAMP's sessions need of all processes together: mail, chats, and who is there."""
